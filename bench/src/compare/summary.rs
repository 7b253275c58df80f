//! Makes the report of what a run has done so far.

use super::plan::{Plan, PlannedServer, Step};
use super::report::{NotRun, Options, Report, ServerReport, VERSION};
use super::state::{Log, Record, StepOutcome};
use super::{bars, claims};
use crate::args::Compare;

/// Returns the report of what the log has.
pub(super) fn of(options: &Compare, plan: &Plan, log: &Log) -> Report {
    let (mut rows, mut cases) = (Vec::new(), Vec::new());
    let mut not_run: Vec<NotRun> = plan.servers.iter().flat_map(|server| server.left_out.clone()).collect();
    for step in log.steps() {
        match &step.outcome {
            StepOutcome::Measured(measured) => rows.extend(measured.iter().cloned()),
            StepOutcome::Played(played) => cases.extend(played.iter().cloned()),
            StepOutcome::NotRun(not) => not_run.push(not.clone()),
            StepOutcome::Failed(not) => {
                not_run.push(NotRun { why: format!("failed: {}", not.why), ..not.clone() });
            }
        }
    }
    let untouched: Vec<NotRun> = plan.servers.iter().flat_map(|server| untouched(server, log)).collect();
    let complete = untouched.is_empty()
        && !log.steps().any(|step| matches!(step.outcome, StepOutcome::Failed(_)))
        && !plan.servers.iter().any(|server| matches!(last_seen(log, &server.name), Some(Record::Failed(_))));
    not_run.extend(untouched);
    let seen = |server: &PlannedServer| last_seen(log, &server.name)?.server().cloned();
    let servers: Vec<ServerReport> = plan.servers.iter().filter_map(seen).collect();
    let took_s = log.steps().map(|step| step.took_s).sum();
    let mut report = Report {
        version: VERSION,
        began: log.header().began.clone(),
        took_s: Some(took_s),
        ended: log.steps().map(|step| step.ended.clone()).max(),
        complete,
        machine: log.header().machine.clone(),
        options: Options {
            quick: options.quick,
            on: plan.servers.iter().map(|server| server.name.clone()).collect(),
            workloads: options.workloads.iter().map(|workload| workload.as_str().to_owned()).collect(),
        },
        claims: claims::judge(&servers, &rows, &cases),
        bars: Vec::new(),
        servers,
        rows,
        cases,
        not_run,
    };
    report.bars = bars::judge(&report);
    report
}

/// Returns the steps that a run has not come to on a server that may be there.
fn untouched(server: &PlannedServer, log: &Log) -> Vec<NotRun> {
    if matches!(last_seen(log, &server.name), Some(Record::Absent(_) | Record::Failed(_))) {
        return Vec::new();
    }
    let is_untouched = |step: &&Step| !log.steps().any(|ended| ended.key == server.key(step));
    let not_run = |step: &Step| NotRun {
        server: server.name.clone(),
        workload: step.case.to_string(),
        why: "not measured yet".to_owned(),
    };
    server.steps.iter().filter(is_untouched).map(not_run).collect()
}

/// Returns the last record of a server itself.
fn last_seen<'a>(log: &'a Log, name: &str) -> Option<&'a Record> {
    let is_of = |server: &ServerReport| server.name == name;
    log.records().iter().rev().find(|record| record.server().is_some_and(is_of))
}

#[cfg(test)]
mod tests {
    use super::super::state::{Header, StepRecord};
    use super::*;
    use crate::machine::Machine;

    fn server(name: &str) -> ServerReport {
        ServerReport {
            name: name.to_owned(),
            product: None,
            backend: "memory".to_owned(),
            durable: Some(false),
            info: None,
            not_run: None,
        }
    }

    fn step(key: String) -> Record {
        Record::Step(StepRecord {
            key,
            ended: "2026-03-01T12:00:00Z".to_owned(),
            took_s: 1.5,
            outcome: StepOutcome::Measured(Vec::new()),
        })
    }

    #[test]
    fn a_report_is_complete_when_every_step_has_ended_or_its_server_is_absent() {
        let options = Compare { on: vec!["memory".to_owned(), "redis".to_owned()], ..Compare::default() };
        let plan = Plan::of(&options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let header = Header::new("2026-03-01T11:00:00Z".to_owned(), plan.lines(), Machine::this(1));
        let mut log = Log::open(folder.path(), header).unwrap();
        let nothing = of(&options, &plan, &log);
        assert!(!nothing.complete && nothing.servers.is_empty() && nothing.ended.is_none());
        assert!(nothing.not_run.iter().any(|not| not.why == "not measured yet"));
        log.append(Record::Started(server("memory"))).unwrap();
        for planned in &plan.servers[0].steps {
            log.append(step(plan.servers[0].key(planned))).unwrap();
        }
        log.append(Record::Failed(server("redis"))).unwrap();
        assert!(!of(&options, &plan, &log).complete);
        log.append(Record::Absent(server("redis"))).unwrap();
        let report = of(&options, &plan, &log);
        assert!(report.complete, "{:?}", report.not_run);
        assert_eq!((report.servers.len(), report.ended.as_deref()), (2, Some("2026-03-01T12:00:00Z")));
        assert_eq!(report.took_s, Some(1.5 * plan.servers[0].steps.len() as f64));
        assert!(report.bars.iter().any(|bar| bar.server.as_deref() == Some("memory")), "{:?}", report.bars);
    }
}
