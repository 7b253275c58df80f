//! Looks figures up in a report.

use super::report::{Report, Row, ServerReport};
use super::workload::Case;
use crate::subjects::Kind;

/// Returns the row of the library at a case on a server. The error says why there is none.
pub(super) fn ours<'a>(report: &'a Report, server: &ServerReport, case: Case) -> Result<&'a Row, String> {
    of_subject(report, server, case, Kind::Ours.as_str())
}

/// Returns the row of a subject. The error says why there is none.
pub(super) fn of_subject<'a>(
    report: &'a Report,
    server: &ServerReport,
    case: Case,
    subject: &str,
) -> Result<&'a Row, String> {
    let (workload, parameters) = (case.workload().as_str(), case.parameters());
    let is_it = |row: &&Row| {
        row.server == server.name
            && row.workload == workload
            && row.parameters == parameters
            && row.subject == subject
    };
    report.rows.iter().find(is_it).ok_or_else(|| why_not(report, server, case))
}

/// Returns why a case has no figures on a server.
fn why_not(report: &Report, server: &ServerReport, case: Case) -> String {
    if let Some(why) = &server.not_run {
        return why.clone();
    }
    let text = case.to_string();
    let not = report.not_run.iter().find(|not| not.server == server.name && not.workload == text);
    not.map_or_else(|| "this run has no figures of it".to_owned(), |not| not.why.clone())
}

/// Returns a figure of a row, or why there is none.
pub(super) fn figure(
    row: Result<&Row, String>,
    figure: impl FnOnce(&Row) -> Option<f64>,
) -> Result<f64, String> {
    figure(row?).ok_or_else(|| "no cycle of it ended".to_owned())
}

/// Returns one of the further figures of a row, or why there is none.
pub(super) fn extra(row: Result<&Row, String>, name: &str) -> Result<f64, String> {
    row?.extra.get(name).copied().ok_or_else(|| "this run could not count it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        serde_json::from_str(include_str!("../../tests/page/report.json")).unwrap()
    }

    #[test]
    fn a_figure_that_is_missing_has_its_reason() {
        let report = sample();
        let server = |name: &str| report.servers.iter().find(|server| server.name == name).unwrap();
        let row = ours(&report, server("redis"), Case::OwnNames { tasks: 1 });
        assert!(figure(row, |row| row.p50_us).is_ok());
        let held = ours(&report, server("redis"), Case::Held { locks: 100 });
        assert_eq!(held.unwrap_err(), "--quick leaves it out");
        let absent = ours(&report, server("zookeeper"), Case::HandOver);
        assert_eq!(absent.unwrap_err(), "there is no ZooKeeper on this machine");
        let no_latency = ours(&report, server("redis"), Case::Held { locks: 1000 });
        assert!(figure(no_latency, |row| row.p50_us).is_err());
        assert!(extra(no_row(), "jain").is_err());
    }

    fn no_row() -> Result<&'static Row, String> {
        Err("not measured".to_owned())
    }
}
