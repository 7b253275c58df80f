//! The evidence of a run for claims: figures of workloads, and what became of trials.

use lock_naive::Scheme;

use super::trial::{Scene, Trial};
use crate::backend::Backend;
use crate::case::Case;
use crate::report::{Ended, Played, Report, Server};
use crate::row::Row;
use crate::subjects::Kind;

#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a>(pub(super) &'a Report);

/// The claim is judged of the scheme or of the library, on this kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// The scheme as the texts have it.
    Scheme(Scheme, Backend),
    Ours(Backend),
}

impl Of {
    pub(super) fn subject(self) -> &'static str {
        match self {
            Of::Scheme(scheme, _) => scheme.name(),
            Of::Ours(_) => Kind::Ours.as_str(),
        }
    }

    pub(super) fn backend(self) -> Backend {
        match self {
            Of::Scheme(_, backend) | Of::Ours(backend) => backend,
        }
    }
}

/// A server writes to the disk before it acknowledges, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Unused,
    EveryWrite,
}

/// A case of the suite, as evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) passed: bool,
    pub(super) text: String,
}

const SHOWN: usize = 160;

impl<'a> Evidence<'a> {
    /// Returns whether a case passed. A failure counts only if it says `saying`. An error says why there is none.
    pub(super) fn case(&self, of: Of, case: &'static str, saying: &str) -> Result<Shown, String> {
        let played = self.played(of, Trial::Case(case))?;
        let why = played.why.as_deref().unwrap_or_default();
        let shown = |passed, outcome: &str| Ok(Shown { passed, text: format!("{case} {outcome}") });
        match played.outcome {
            Ended::Passed => shown(true, "passes"),
            Ended::Failed if why.contains(saying) => shown(false, &format!("fails: {}", one_line(why))),
            Ended::Failed => Err(format!("{case} fails for another reason: {}", one_line(why))),
            Ended::NotRun | Ended::Measured => Err(format!("{case} was not run: {why}")),
        }
    }

    /// Returns whether a case was not run because the scheme does not promise what the case is about.
    pub(super) fn is_not_promised(&self, of: Of, case: &'static str) -> bool {
        let not_promised = |why: &String| why.contains("does not promise");
        self.played(of, Trial::Case(case)).is_ok_and(|played| {
            played.outcome == Ended::NotRun && played.why.as_ref().is_some_and(not_promised)
        })
    }

    /// Returns a figure of a scene. The error says why the run does not have it.
    pub(super) fn figure(&self, of: Of, scene: Scene, figure: &str) -> Result<f64, String> {
        let played = self.played(of, Trial::Scene(scene))?;
        let why = || played.why.as_deref().map(one_line).unwrap_or_default();
        let figure = played.figures.get(figure).copied();
        figure.ok_or_else(|| format!("{} could not be played: {}", scene.name(), why()))
    }

    fn played(&self, of: Of, trial: Trial) -> Result<&'a Played, String> {
        let is_it = |played: &&Played| {
            played.subject == of.subject()
                && played.case == trial.name()
                && self.is_on(&played.server, of.backend())
        };
        let played = self.0.played.iter().find(is_it);
        played
            .ok_or_else(|| format!("{} was not tried: this needs a server started by the run", trial.name()))
    }

    fn is_on(&self, server: &str, backend: Backend) -> bool {
        self.0.servers.iter().any(|known| known.name == server && known.backend == backend)
    }

    /// Returns the row of a case. The error says why the run does not have it.
    pub(super) fn row(&self, of: Of, case: Case) -> Result<&'a Row, String> {
        let text = case.to_string();
        let is_it = |row: &&Row| {
            row.case == text && row.subject == of.subject() && self.is_on(&row.server, of.backend())
        };
        let row = self.0.rows.iter().find(is_it);
        row.ok_or_else(|| format!("{case} of {} on {} was not measured", of.subject(), of.backend().as_str()))
    }

    /// Returns the speed of a subject on names of its own, with so many tasks. An error says why there is none.
    pub(super) fn speed(&self, of: Of, tasks: usize, disk: Disk) -> Result<Speed<'a>, String> {
        self.speed_of(of.subject(), of.backend(), tasks, disk)
    }

    pub(super) fn speed_of(
        &self,
        subject: &'static str,
        backend: Backend,
        tasks: usize,
        disk: Disk,
    ) -> Result<Speed<'a>, String> {
        let found = self.speeds(subject, tasks, disk).find(|speed| self.is_on(&speed.row.server, backend));
        found.ok_or_else(|| {
            let disk = if disk == Disk::EveryWrite { " with a disk" } else { "" };
            format!("own-names tasks={tasks} of {subject} on {}{disk} was not measured", backend.as_str())
        })
    }

    /// Returns the fastest but this one of the same side: of all schemes, or of the library on all servers.
    pub(super) fn fastest(&self, of: Of, tasks: usize, but: &Speed<'_>) -> Option<Speed<'a>> {
        let subjects: Vec<&'static str> = match of {
            Of::Scheme(..) => Scheme::ALL.into_iter().map(Scheme::name).collect(),
            Of::Ours(_) => vec![of.subject()],
        };
        let all = subjects.into_iter().flat_map(|subject| self.speeds(subject, tasks, Disk::Unused));
        let others = all.filter(|speed| !speed.is(but));
        others.min_by(|one, other| one.p50_us.total_cmp(&other.p50_us))
    }

    fn speeds(
        &self,
        subject: &'static str,
        tasks: usize,
        disk: Disk,
    ) -> impl Iterator<Item = Speed<'a>> + use<'a> {
        let Report { rows, servers, .. } = self.0;
        let case = Case::OwnNames { tasks }.to_string();
        let is_it = move |row: &&Row| {
            row.case == case
                && row.subject == subject
                && servers.iter().any(|server| server.name == row.server && has(server, disk))
        };
        rows.iter().filter(is_it).filter_map(Speed::of)
    }
}

/// Returns whether it is a server, which writes to a disk or does not. Memory and files are no servers. Of some kinds
/// there is one server for both, which always writes.
fn has(server: &Server, disk: Disk) -> bool {
    match server.backend {
        Backend::Memory | Backend::Sqlite => false,
        Backend::Mongo | Backend::Etcd | Backend::ZooKeeper => true,
        _ => (server.durable == Some(true)) == (disk == Disk::EveryWrite),
    }
}

/// The speed of a subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed<'a> {
    row: &'a Row,
    pub(super) p50_us: f64,
    pub(super) per_s: f64,
}

impl<'a> Speed<'a> {
    fn of(row: &'a Row) -> Option<Speed<'a>> {
        Some(Speed { row, p50_us: row.p50_us?, per_s: row.per_s })
    }

    /// `naive-setnx on redis: p50 61 us`
    pub(super) fn latency(&self) -> String {
        format!("{} on {}: p50 {:.0} us", self.row.subject, self.row.server, self.p50_us)
    }

    /// `naive-setnx on redis: 15000 cycles/s`
    pub(super) fn rate(&self) -> String {
        format!("{} on {}: {:.0} cycles/s", self.row.subject, self.row.server, self.per_s)
    }

    fn is(&self, other: &Speed<'_>) -> bool {
        (&self.row.subject, &self.row.server) == (&other.row.subject, &other.row.server)
    }
}

fn one_line(why: &str) -> String {
    why.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
}
