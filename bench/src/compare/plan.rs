//! The plan of a run: which steps are measured on which server, and how long each takes. It is known in full before
//! the first step, so that the time left can be told, and a run that was interrupted can be continued.

use std::time::Duration;

use lock_core::driver::Wakes;

use super::estimate::{self, Speed};
use super::lineup::{self, Origin};
use super::peers;
use super::report::NotRun;
use super::workload::{Case, Workload};
use crate::Outcome;
use crate::args::Compare;
use crate::backend::Backend;
use crate::durable;
use crate::labels::{self, Labels};
use crate::secrets::shown;
use crate::servers::{Asked, Durability};
use crate::subjects::peers::Peer;

/// What is done in one run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<PlannedServer>,
}

/// One server, and what is measured on it.
#[derive(Debug)]
pub(crate) struct PlannedServer {
    /// Its name in the report. No other server of the plan has it.
    pub(crate) name: String,
    pub(crate) asked: Asked,
    pub(crate) backend: Backend,
    pub(crate) durability: Durability,
    /// The peers that are measured there.
    pub(crate) peers: Vec<Peer>,
    pub(crate) steps: Vec<Step>,
    /// What can't be measured there, or is left out.
    pub(crate) left_out: Vec<NotRun>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) case: Case,
    /// How long is measured.
    pub(crate) length: Duration,
    /// How long it takes with its preparation, as estimated.
    pub(crate) whole: Duration,
}

impl Plan {
    pub(crate) fn of(options: &Compare) -> Outcome<Plan> {
        let speed = if options.quick { Speed::Quick } else { Speed::Thorough };
        let asked = match &options.on[..] {
            [] => durable::everything(),
            on => on.iter().map(|on| durable::named(on)).collect::<Outcome<_>>()?,
        };
        let (mut servers, mut labels) = (Vec::new(), Labels::default());
        for (asked, durability) in asked {
            let name = labels.distinct(&name(&asked, durability));
            servers.push(PlannedServer::of(name, asked, durability, speed, options)?);
        }
        Ok(Plan { servers })
    }

    /// Returns one line for each step, which says all that its figures depend on. Two plans with the same lines are the
    /// same plan.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = |server: &PlannedServer| {
            let line = |step: &Step| {
                let peers = peers::line(&peers::in_case(step.case, &server.peers));
                format!("{} for {} ms{peers}", server.key(step), step.length.as_millis())
            };
            server.steps.iter().map(line).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(lines).collect()
    }

    /// Returns how long it takes, as estimated, if every server is there.
    pub(crate) fn length(&self) -> Duration {
        self.servers.iter().map(PlannedServer::length).sum()
    }
}

impl PlannedServer {
    fn of(
        name: String,
        asked: Asked,
        durability: Durability,
        speed: Speed,
        options: &Compare,
    ) -> Outcome<PlannedServer> {
        let backend = match &asked {
            Asked::Url(url) => Backend::of(url)?,
            Asked::Named(known) | Asked::Any(known) => known.backend,
        };
        let mut server = PlannedServer {
            name,
            asked,
            backend,
            durability,
            peers: Vec::new(),
            steps: Vec::new(),
            left_out: Vec::new(),
        };
        if options.peers {
            server.add_peers();
        }
        let workloads = &options.workloads;
        let wanted = |workload: &Workload| workloads.is_empty() || workloads.contains(workload);
        for workload in Workload::ALL.into_iter().filter(wanted) {
            for case in workload.cases() {
                server.add(case, speed);
            }
        }
        Ok(server)
    }

    fn add_peers(&mut self) {
        for peer in peers::of(self.backend) {
            match peer.lack() {
                None => self.peers.push(peer),
                Some(why) => self.left_out.push(NotRun {
                    server: self.name.clone(),
                    workload: peers::not_run(peer),
                    why,
                }),
            }
        }
    }

    fn add(&mut self, case: Case, speed: Speed) {
        let lineups =
            self.possible_wakes().iter().map(|wakes| lineup::of(case, self.backend, *wakes, self.origin()));
        let lineup = lineups.reduce(Result::or);
        let subjects = lineup.as_ref().and_then(|lineup| lineup.as_ref().ok()).map_or(1, Vec::len);
        let why = match lineup {
            Some(Err(why)) => Some(why),
            _ if self.durability == Durability::EveryWrite && !is_about_the_disk(case) => {
                Some("what the disk adds is measured at own-names and hand-over")
            }
            _ if case == Case::Claims && self.is_a_second_mongodb() => Some("claims are tried on mongodb"),
            _ if case == Case::Failover && self.is_standalone_mongodb() => {
                Some("a standalone server has no member that could take over")
            }
            _ => None,
        };
        match (why, estimate::length(case, speed)) {
            (None, Some(length)) => {
                let peers = peers::in_case(case, &self.peers);
                let length = peers::lengthened(length, subjects, peers.len());
                let preparation = estimate::preparation(case, self.backend) + peers::preparation(&peers);
                self.steps.push(Step { case, length, whole: length + preparation });
            }
            (Some(why), _) => self.leave_out(case, why),
            (None, None) => self.leave_out(case, "--quick leaves it out"),
        }
    }

    /// Whether there is a replica set of the same program in the plan.
    fn is_a_second_mongodb(&self) -> bool {
        self.is_standalone_mongodb() && matches!(self.asked, Asked::Any(_))
    }

    /// Whether it is a MongoDB without a replica set.
    fn is_standalone_mongodb(&self) -> bool {
        matches!(self.asked, Asked::Any(known) | Asked::Named(known) if known.name == "mongodb-alone")
    }

    /// Returns how its waiters may learn of a release, as far as that is known before it runs.
    fn possible_wakes(&self) -> &'static [Wakes] {
        match (self.origin(), self.backend) {
            (_, Backend::MySql | Backend::Sqlite) => &[Wakes::Polled],
            (Origin::Given, _) => &[Wakes::Pushed, Wakes::Polled],
            (Origin::Started, Backend::Mongo) if self.is_standalone_mongodb() => &[Wakes::Polled],
            (Origin::Started, _) => &[Wakes::Pushed],
        }
    }

    fn leave_out(&mut self, case: Case, why: &str) {
        self.left_out.push(NotRun {
            server: self.name.clone(),
            workload: case.to_string(),
            why: why.to_owned(),
        });
    }

    /// Returns the text that identifies a step in the log of the run.
    pub(crate) fn key(&self, step: &Step) -> String {
        format!("{}: {}", self.name, step.case)
    }

    pub(crate) fn origin(&self) -> Origin {
        match self.asked {
            Asked::Url(_) => Origin::Given,
            Asked::Named(_) | Asked::Any(_) => Origin::Started,
        }
    }

    /// Returns how long its start takes, as estimated.
    pub(crate) fn start(&self) -> Duration {
        match (self.origin(), self.backend) {
            (Origin::Given, _) | (_, Backend::Memory | Backend::Sqlite) => Duration::ZERO,
            (Origin::Started, _) => estimate::START,
        }
    }

    fn length(&self) -> Duration {
        self.start() + self.steps.iter().map(|step| step.whole).sum::<Duration>()
    }
}

/// Returns the names of the servers of a run that names none.
pub(super) fn names_of_all() -> impl Iterator<Item = String> {
    durable::everything().into_iter().map(|(asked, durability)| name(&asked, durability))
}

fn name(asked: &Asked, durability: Durability) -> String {
    match asked {
        Asked::Url(url) => labels::with_parameters(&shown(url), url),
        Asked::Named(known) | Asked::Any(known) => durable::name(*known, durability),
    }
}

fn is_about_the_disk(case: Case) -> bool {
    matches!(case, Case::OwnNames { tasks: 1 | 64 } | Case::HandOver)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(on: &[&str], quick: bool) -> Plan {
        let on = on.iter().map(|&on| on.to_owned()).collect();
        Plan::of(&Compare { on, quick, ..Compare::default() }).unwrap()
    }

    #[test]
    fn quick_takes_at_most_ten_minutes_for_all_servers() {
        let all = plan(&[], true);
        assert_eq!(all.servers.len(), durable::everything().len());
        assert!(all.length() <= Duration::from_secs(600), "{:?}", all.length());
    }

    #[test]
    fn claims_take_at_most_a_minute_of_a_quick_run() {
        let all = plan(&[], true);
        let steps = all.servers.iter().flat_map(|server| &server.steps);
        let claims: Vec<_> = steps.filter(|step| step.case == Case::Claims).collect();
        assert_eq!(claims.len(), 5, "Redis, Redlock, MariaDB, MySQL, MongoDB");
        assert!(claims.iter().map(|step| step.whole).sum::<Duration>() <= Duration::from_secs(60));
    }

    #[test]
    fn each_step_has_a_line_of_its_own() {
        let lines = plan(&[], false).lines();
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len());
        assert!(lines.contains(&"redis-durable: own-names tasks=64 for 12000 ms".to_owned()), "{lines:?}");
        assert_ne!(plan(&["redis"], true).lines(), plan(&["redis"], false).lines());
    }

    #[test]
    fn clusters_are_tried_once_for_each_kind() {
        let all = plan(&[], true);
        let has_it = |server: &&PlannedServer| server.steps.iter().any(|step| step.case == Case::Failover);
        let names: Vec<&str> = all.servers.iter().filter(has_it).map(|server| &*server.name).collect();
        assert_eq!(names, ["redlock", "mongodb", "etcd", "zookeeper"]);
        let given = plan(&["etcd://h"], false).servers.remove(0);
        assert!(given.left_out.iter().any(|left| left.workload == "failover"), "{:?}", given.left_out);
    }

    #[test]
    fn a_standalone_mongodb_is_polled_however_it_was_asked_for() {
        for on in [&["mongodb-alone"][..], &[]] {
            let all = plan(on, true).servers;
            let alone = all.iter().find(|server| server.name == "mongodb-alone").unwrap();
            assert!(alone.steps.iter().any(|step| step.case == Case::Delay));
        }
    }

    #[test]
    fn a_server_that_is_asked_for_twice_has_two_names() {
        let names = |on: &[&str]| plan(on, true).servers.into_iter().map(|s| s.name).collect::<Vec<_>>();
        assert_eq!(names(&["redis", "redis-durable", "redis"]), ["redis", "redis-durable", "redis (2)"]);
        assert_eq!(names(&["redis://u:secret@h", "redis://h"]), ["redis://h", "redis://h (2)"]);
        assert_eq!(names(&["redis://h?fair=true", "redis://h"]), ["redis://h fair=true", "redis://h"]);
    }

    #[test]
    fn what_never_applies_is_not_planned_and_said() {
        let memory = plan(&["memory://"], false).servers.remove(0);
        let planned: Vec<Workload> = memory.steps.iter().map(|step| step.case.workload()).collect();
        assert!(
            planned.contains(&Workload::OwnNames) && !planned.contains(&Workload::HandOver),
            "{planned:?}"
        );
        assert!(memory.left_out.iter().any(|left| left.workload == "hand-over"), "{:?}", memory.left_out);
    }

    #[test]
    fn only_the_workloads_that_are_asked_for_are_planned() {
        let options = Compare { workloads: vec![Workload::HandOver], ..Compare::default() };
        let plan = Plan::of(&options).unwrap();
        let steps = plan.servers.iter().flat_map(|server| &server.steps);
        assert!(steps.clone().count() > 0 && steps.clone().all(|step| step.case == Case::HandOver));
    }
}
