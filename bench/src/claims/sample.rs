//! The verdicts on data that were made up, where the runs on real servers (`bench/tests/runs.rs`) show one verdict only.

use std::collections::BTreeMap;

use lock_naive::Scheme;

use super::evidence::{Disk, Evidence, Of};
use super::keeping;
use super::list::CLAIMS;
use super::trial::{Scene, Trial};
use crate::backend::Backend;
use crate::case::Case;
use crate::machine::Machine;
use crate::report::{Ended, Judgement, Played, Report, Server};
use crate::row::Row;

struct Data(Report);

impl Default for Data {
    fn default() -> Data {
        Data(Report::begin(Vec::new(), true, Machine::this()))
    }
}

impl Data {
    fn server(&mut self, backend: Backend, disk: Disk) -> String {
        let name = format!("{}{}", backend.as_str(), if disk == Disk::EveryWrite { "-durable" } else { "" });
        if !self.0.servers.iter().any(|server| server.name == name) {
            self.0.servers.push(Server {
                name: name.clone(),
                product: None,
                backend,
                durable: Some(disk == Disk::EveryWrite),
                info: None,
            });
        }
        name
    }

    fn add(mut self, of: Of, trial: Trial, outcome: Ended, why: &str, figures: &[(&str, f64)]) -> Data {
        let server = self.server(of.backend(), Disk::Unused);
        let figures = figures.iter().map(|(name, figure)| ((*name).to_owned(), *figure));
        self.0.played.push(Played {
            server,
            subject: of.subject().to_owned(),
            case: trial.name().to_owned(),
            outcome,
            why: (!why.is_empty()).then(|| why.to_owned()),
            figures: figures.collect::<BTreeMap<_, _>>(),
        });
        self
    }

    fn passes(self, of: Of, case: &'static str) -> Data {
        self.add(of, Trial::Case(case), Ended::Passed, "", &[])
    }

    fn fails(self, of: Of, case: &'static str, why: &str) -> Data {
        self.add(of, Trial::Case(case), Ended::Failed, why, &[])
    }

    fn scene(self, of: Of, scene: Scene, figures: &[(&str, f64)]) -> Data {
        self.add(of, Trial::Scene(scene), Ended::Measured, "", figures)
    }

    /// Adds `own-names` of a subject, with a latency in microseconds.
    fn takes(mut self, subject: &str, backend: Backend, disk: Disk, p50_us: f64) -> Data {
        let server = self.server(backend, disk);
        let (case, subject) = (Case::OwnNames { tasks: 1 }.to_string(), subject.to_owned());
        let (per_s, p50_us) = (1e6 / p50_us, Some(p50_us));
        self.0.rows.push(Row { server, case, subject, per_s, p50_us, ..Row::default() });
        self
    }

    /// Adds `failover`: how long until a lock was granted again, in milliseconds, and the share of the held locks that
    /// were kept.
    fn fails_over(mut self, of: Of, gap_ms: Option<f64>, kept: f64) -> Data {
        let server = self.server(of.backend(), Disk::Unused);
        self.0.rows.push(Row {
            server,
            case: Case::Failover.to_string(),
            subject: of.subject().to_owned(),
            max_us: gap_ms.map(|millis| millis * 1e3),
            errors: u64::from(gap_ms.is_none()),
            extra: BTreeMap::from([("kept".to_owned(), kept)]),
            ..Row::default()
        });
        self
    }

    fn verdict(&self, id: &str, of: Of) -> String {
        self.judgement(id, of).verdict
    }

    fn judgement(&self, id: &str, of: Of) -> Judgement {
        let claim = CLAIMS.iter().find(|claim| claim.id == id).expect("there is such a claim");
        assert_eq!(claim.about.1, of.backend(), "{id}");
        match of {
            Of::Scheme(..) => claim.naive(&Evidence(&self.0)),
            Of::Ours(_) => claim.ours(&Evidence(&self.0)),
        }
    }
}

fn both(scheme: Scheme, backend: Backend) -> [Of; 2] {
    [Of::Scheme(scheme, backend), Of::Ours(backend)]
}

const HOLDS: &str = "holds";
const NOT: &str = "does-not-hold";
const WITHIN: &str = "holds-within-a-limit";

#[test]
fn a_failed_case_decides_a_claim_by_its_reason() {
    for of in both(Scheme::UniqueIndex, Backend::MySql) {
        let failed = |why| Data::default().fails(of, keeping::CRASH, why).judgement("T1", of);
        assert_eq!(failed("the lease ends: not within 1.6s").verdict, HOLDS);
        assert_eq!(Data::default().passes(of, keeping::CRASH).verdict("T1", of), NOT);
        let other = failed("the server is gone\nand more");
        assert!(other.verdict == "not-measured" && other.because.ends_with("gone and more"), "{other:?}");
    }
}

#[test]
fn a_scene_decides_a_claim_by_its_figures() {
    let waits = |early, never| vec![("waited_ms_if_released", early), ("waited_ms_if_not", never)];
    let away = |away| vec![("unavailable_ms", away), ("max_ttl_ms", 2000.0)];
    let failover = |two_held| vec![("two_held", two_held), ("token_rises", 0.0)];
    let minority = |dead| vec![("granted_with_one_dead", dead), ("granted_with_one_silent_too", dead)];
    let (fair, redlock) = (both(Scheme::FairQueue, Backend::Redis), both(Scheme::Redlock, Backend::Redlock));
    for (id, of, scene, holds, does_not) in [
        ("T14", fair, Scene::Failover, failover(1.0), failover(0.0)),
        ("T15", redlock, Scene::Minority, minority(1.0), minority(0.0)),
        ("T23", redlock, Scene::EarlyRelease, waits(110.0, 1000.0), waits(990.0, 1000.0)),
        ("T25", [redlock[1]; 2], Scene::CrashedMajority, away(2100.0), away(20.0)),
    ] {
        for of in of {
            let verdict = |figures: &[(&str, f64)]| Data::default().scene(of, scene, figures).verdict(id, of);
            assert_eq!((verdict(&holds), verdict(&does_not)), (HOLDS.to_owned(), NOT.to_owned()), "{id}");
        }
    }
}

#[test]
fn a_claim_of_several_parts_needs_them_all() {
    for of in both(Scheme::SetNxEx, Backend::Redis) {
        let polls = Data::default().scene(of, Scene::Told, &[("pushed", 0.0), ("granted_after_ms", 3.0)]);
        assert_eq!(polls.passes(of, keeping::SAME_OWNER).verdict("T12", of), WITHIN);
    }
    for of in both(Scheme::FairQueue, Backend::Redis) {
        let free = Data::default().scene(of, Scene::DeadWaiters, &[("one_dead_s", 0.1)]);
        assert_eq!(free.passes(of, keeping::ORDER).verdict("T18", of), WITHIN);
        let kept = || Data::default().passes(of, keeping::RENEWED);
        assert_eq!(kept().passes(of, keeping::CRASH).verdict("T21", of), HOLDS);
        let deadlock = kept().fails(of, keeping::CRASH, "the lease ends: not within 1s");
        assert_eq!(deadlock.verdict("T21", of), NOT);
    }
    let available = Of::Ours(Backend::ZooKeeper);
    let fails_over = |gap, kept| Data::default().fails_over(available, gap, kept).verdict("T6", available);
    assert_eq!((fails_over(Some(700.0), 1.0), fails_over(None, 1.0)), (HOLDS.to_owned(), NOT.to_owned()));
    assert_eq!(fails_over(Some(700.0), 0.5), WITHIN);
}

#[test]
fn a_speed_claim_compares_figures_of_one_run() {
    let at = |id, of: Of, other: (&str, Backend), disk, own, others| {
        let data = Data::default().takes(of.subject(), of.backend(), disk, own);
        data.takes(other.0, other.1, Disk::EveryWrite, others)
            .takes(other.0, other.1, Disk::Unused, others)
            .verdict(id, of)
    };
    let (slow, fast) = (300.0, 100.0);
    let (mysql, redis) = ((Scheme::UniqueIndex, Backend::MySql), (Scheme::Setnx, Backend::Redis));
    let (mongodb, lua) = ((Scheme::FindAndModify, Backend::Mongo), (Scheme::SetNxEx, Backend::Redis));
    let named = |(scheme, backend): (Scheme, Backend)| (scheme.name(), backend);
    for (id, (scheme, backend), other, disk, holds) in [
        ("T3", mysql, named(redis), Disk::Unused, slow),
        ("T4", mongodb, named(mysql), Disk::Unused, 30.0),
        ("T7", redis, named(mysql), Disk::Unused, 60.0),
        ("T24", lua, ("ours", Backend::Etcd), Disk::EveryWrite, slow),
    ] {
        for of in both(scheme, backend) {
            let other = if let Of::Ours(_) = of { (of.subject(), other.1) } else { other };
            let verdict = |own| at(id, of, other, disk, own, fast);
            let does_not = if holds > fast { 20.0 } else { slow };
            assert_eq!(
                (verdict(holds), verdict(does_not)),
                (HOLDS.to_owned(), NOT.to_owned()),
                "{id} {of:?}"
            );
        }
    }
    for (of, at_once) in both(Scheme::Redlock, Backend::Redlock).into_iter().zip(["baseline", "ours"]) {
        let one_by_one = |micros| {
            let data = Data::default().takes(at_once, Backend::Redlock, Disk::Unused, 150.0);
            data.takes(Scheme::Redlock.name(), Backend::Redlock, Disk::Unused, micros).verdict("T22", of)
        };
        assert_eq!((one_by_one(400.0), one_by_one(100.0)), (HOLDS.to_owned(), NOT.to_owned()));
    }
}
