//! Data for the tests of the claims.

use std::collections::BTreeMap;

use super::super::report::{Row, ServerReport};
use super::evidence::{Disk, Evidence, Of};
use super::list::CLAIMS;
use super::trial::{Scene, Trial};
use super::verdict::{Finding, Verdict};
use crate::backend::Backend;
use crate::compare::judged::{Ended, Played};
use crate::tally::Tally;

/// The data of a run that never was.
#[derive(Default)]
pub(super) struct Data {
    servers: Vec<ServerReport>,
    rows: Vec<Row>,
    played: Vec<Played>,
}

impl Data {
    fn server(&mut self, backend: Backend, disk: Disk) -> String {
        let name = format!("{}{}", backend.as_str(), if disk == Disk::EveryWrite { "-durable" } else { "" });
        if !self.servers.iter().any(|server| server.name == name) {
            self.servers.push(ServerReport {
                name: name.clone(),
                product: None,
                backend: backend.as_str().to_owned(),
                durable: Some(disk == Disk::EveryWrite),
                info: None,
                not_run: None,
            });
        }
        name
    }

    fn add(mut self, of: Of, trial: Trial, outcome: Ended, why: &str, figures: &[(&str, f64)]) -> Data {
        let server = self.server(of.backend(), Disk::Unused);
        let figures = figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure));
        self.played.push(Played {
            server,
            subject: of.subject().to_owned(),
            case: trial.name().to_owned(),
            outcome,
            why: (!why.is_empty()).then(|| why.to_owned()),
            figures: figures.collect::<BTreeMap<_, _>>(),
        });
        self
    }

    pub(super) fn passes(self, of: Of, case: &'static str) -> Data {
        self.add(of, Trial::Case(case), Ended::Passed, "", &[])
    }

    pub(super) fn fails(self, of: Of, case: &'static str, why: &str) -> Data {
        self.add(of, Trial::Case(case), Ended::Failed, why, &[])
    }

    pub(super) fn not_run(self, of: Of, case: &'static str) -> Data {
        let why = "it is about what this backend does not promise";
        self.add(of, Trial::Case(case), Ended::NotRun, why, &[])
    }

    pub(super) fn scene(self, of: Of, scene: Scene, figures: &[(&str, f64)]) -> Data {
        self.add(of, Trial::Scene(scene), Ended::Measured, "", figures)
    }

    /// Adds `own-names` of a subject, with a latency in microseconds.
    pub(super) fn takes(self, subject: &str, backend: Backend, tasks: u64, p50_us: f64) -> Data {
        self.takes_with(subject, backend, Disk::Unused, tasks, p50_us)
    }

    pub(super) fn takes_with(
        mut self,
        subject: &str,
        backend: Backend,
        disk: Disk,
        tasks: u64,
        p50_us: f64,
    ) -> Data {
        let server = self.server(backend, disk);
        self.rows.push(Row {
            server,
            workload: "own-names".to_owned(),
            parameters: BTreeMap::from([("tasks".to_owned(), tasks)]),
            p50_us: Some(p50_us),
            per_s: 1e6 * tasks as f64 / p50_us,
            ..Row::of(subject, &Tally::default(), None)
        });
        self
    }

    /// Adds `failover`: how long until a lock was granted again, in milliseconds, and the share of the held locks that
    /// were kept.
    pub(super) fn fails_over(mut self, of: Of, gap_ms: Option<f64>, kept: f64) -> Data {
        let server = self.server(of.backend(), Disk::Unused);
        self.rows.push(Row {
            server,
            workload: "failover".to_owned(),
            max_us: gap_ms.map(|millis| millis * 1e3),
            errors: u64::from(gap_ms.is_none()),
            extra: BTreeMap::from([("kept".to_owned(), kept)]),
            ..Row::of(of.subject(), &Tally::default(), None)
        });
        self
    }

    /// Returns the verdict on a claim by this data.
    pub(super) fn verdict(&self, id: &str, of: Of) -> Verdict {
        let claim = CLAIMS.iter().find(|claim| claim.id == id).expect("there is such a claim");
        assert_eq!(claim.backend, of.backend(), "{id}");
        let evidence = Evidence { servers: &self.servers, rows: &self.rows, played: &self.played };
        let Finding { verdict, .. } = match of {
            Of::Scheme(..) => claim.naive(&evidence),
            Of::Ours(_) => claim.ours(&evidence),
        };
        verdict
    }
}

#[test]
fn a_failure_for_another_reason_shows_nothing() {
    let of = Of::Scheme(lock_naive::Scheme::UniqueIndex, Backend::MySql);
    let data = Data::default().fails(of, super::keeping::CRASH, "the server is gone\nand more");
    let verdict = data.verdict("T1", of);
    assert!(
        matches!(&verdict, Verdict::NotMeasured(why) if why.ends_with("the server is gone and more")),
        "{verdict:?}"
    );
}
