//! The report: what `report.json` holds. `bench/README.md` describes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use onelock::{Fencing, Info};
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::backend::Backend;
use crate::case::Case;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::row::Row;
use crate::subjects::Kind;
use crate::{claims, goals};

/// The version of the schema. A change that an older reader would misread raises it.
pub(crate) const VERSION: u32 = 2;

const FILE: &str = "report.json";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) version: u32,
    pub(crate) began: String,
    /// The time of its steps, with the starts of their servers, in seconds.
    pub(crate) took_s: f64,
    /// Every step of the plan was measured, or can't be measured here.
    pub(crate) complete: bool,
    pub(crate) quick: bool,
    pub(crate) machine: Machine,
    /// The steps: one for each case on each server. Two runs with the same plan are the same run.
    pub(crate) plan: Vec<String>,
    pub(crate) done: Vec<String>,
    pub(crate) servers: Vec<Server>,
    pub(crate) rows: Vec<Row>,
    /// The outcomes of the cases and scenes that claims need.
    pub(crate) played: Vec<Played>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) goals: Vec<Goal>,
    pub(crate) not_run: Vec<NotRun>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) name: String,
    /// The product and its version, as a server that this program started tells them.
    pub(crate) product: Option<String>,
    pub(crate) backend: Backend,
    /// It writes to the disk before it acknowledges; `None` if this program doesn't know.
    pub(crate) durable: Option<bool>,
    /// `None` if it was not measured.
    pub(crate) info: Option<Promises>,
}

/// The library's `Info` of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Promises {
    pub(crate) address: String,
    pub(crate) lease: String,
    pub(crate) fair: String,
    pub(crate) wakes: String,
    /// The assumption under which the token rises, in a word.
    pub(crate) fencing: String,
    pub(crate) clock: String,
    pub(crate) data_loss: String,
    pub(crate) requests_per_hand_over: u32,
}

/// A step or a server that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotRun {
    pub(crate) server: String,
    /// A case, or `peer redsync`; `None` for the whole server.
    pub(crate) case: Option<String>,
    pub(crate) why: String,
    /// It could have been measured here, and was not because something went wrong.
    pub(crate) failed: bool,
}

/// The outcome of a trial of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) server: String,
    /// `ours`, or the name of a scheme.
    pub(crate) subject: String,
    pub(crate) case: String,
    pub(crate) outcome: Ended,
    /// The reason why it failed, or was not run.
    pub(crate) why: Option<String>,
    pub(crate) figures: BTreeMap<String, f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    Passed,
    Failed,
    NotRun,
    Measured,
}

/// A claim, with the verdict on the scheme of the texts and on the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) id: String,
    pub(crate) text: String,
    pub(crate) scheme: String,
    pub(crate) naive: Judgement,
    pub(crate) ours: Judgement,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judgement {
    pub(crate) verdict: String,
    pub(crate) because: String,
}

impl Promises {
    pub(crate) fn of(info: &Info) -> Promises {
        let fencing = match &info.fencing {
            Fencing::Always => "always",
            Fencing::WhileDataIsKept { .. } => "while-data-is-kept",
            Fencing::WhileAMajorityKeepsItsData { .. } => "while-a-majority-keeps-its-data",
            Fencing::UntilAMajorityLosesItsData { .. } => "until-a-majority-loses-its-data",
            _ => "other",
        };
        Promises {
            address: info.server.clone(),
            lease: info.lease.as_str().to_owned(),
            fair: info.fair.as_str().to_owned(),
            wakes: info.wakes.as_str().to_owned(),
            fencing: fencing.to_owned(),
            clock: info.clock.to_owned(),
            data_loss: info.data_loss.clone(),
            requests_per_hand_over: info.requests_per_hand_over,
        }
    }
}

impl Report {
    pub(crate) fn begin(plan: Vec<String>, quick: bool, machine: Machine) -> Report {
        Report { version: VERSION, began: now(), quick, machine, plan, ..Report::default() }
    }

    /// Continues the run of which the folder has a report, if there is one. If that is another run, its figures could not be
    /// compared with those of this one, which is an error.
    pub(crate) fn continued(self, folder: &Path) -> Outcome<Report> {
        if !folder.join(FILE).exists() {
            return Ok(self);
        }
        let mut earlier = Report::read(folder)?;
        if earlier.machine.fixed != self.machine.fixed || earlier.plan != self.plan {
            let what = if earlier.plan == self.plan { "machine or build" } else { "plan" };
            let folder = folder.display();
            return Err(
                format!("{folder} holds a run with another {what}: name another folder with --out").into()
            );
        }
        // What failed is tried again.
        let failed: Vec<NotRun> = earlier.not_run.extract_if(.., |not| not.failed).collect();
        let is_again = |key: &String| failed.iter().any(|not| not.is_of(key));
        earlier.done.retain(|key| !is_again(key));
        Ok(earlier)
    }

    pub(crate) fn judge(&mut self) {
        self.claims = claims::judge(self);
        self.goals = goals::judge(self);
    }

    pub(crate) fn read(folder: &Path) -> Outcome<Report> {
        #[derive(Deserialize)]
        struct Schema {
            version: u32,
        }
        let file = folder.join(FILE);
        let of_file = |e: &dyn std::fmt::Display| format!("{}: {e}", file.display());
        let text = fs::read(&file).map_err(|e| of_file(&e))?;
        // Another version may have other fields.
        let schema: Schema = serde_json::from_slice(&text).map_err(|e| of_file(&e))?;
        if schema.version != VERSION {
            return Err(of_file(&format!("its schema has version {}, not {VERSION}", schema.version)).into());
        }
        Ok(serde_json::from_slice(&text).map_err(|e| of_file(&e))?)
    }

    /// Writes `report.json` into the folder. A reader never sees half of it.
    pub(crate) fn write(&self, folder: &Path) -> Outcome<()> {
        // A line for each row. Within a text, a quotation mark has a backslash.
        let text = serde_json::to_string(self)?.replace(r#"},{""#, "},\n{\"");
        write(folder, FILE, &text)
    }

    pub(crate) fn measured(&self) -> impl Iterator<Item = (&Server, &Promises)> {
        self.servers.iter().filter_map(|server| Some((server, server.info.as_ref()?)))
    }

    /// Returns the row of a subject. The error says why there is none.
    pub(crate) fn row(&self, server: &str, case: Case, subject: Kind) -> Result<&Row, String> {
        let text = case.to_string();
        let is_it = |row: &&Row| row.server == server && row.case == text && row.subject == subject.as_str();
        let why = || {
            let not = self.not_run.iter().find(|not| not.server == server && not.is_about(&text));
            not.map_or_else(|| "this run has no figures of it".to_owned(), |not| not.why.clone())
        };
        self.rows.iter().find(is_it).ok_or_else(why)
    }

    pub(crate) fn ours(&self, server: &str, case: Case, figure: fn(&Row) -> Option<f64>) -> Option<f64> {
        figure(self.row(server, case, Kind::Ours).ok()?)
    }
}

impl NotRun {
    fn is_about(&self, case: &str) -> bool {
        self.case.as_deref().is_none_or(|own| own == case)
    }

    fn is_of(&self, key: &str) -> bool {
        key.split_once(": ").is_some_and(|(server, case)| server == self.server && self.is_about(case))
    }
}

/// Writes a file of this name into a folder. A reader never sees half of it.
pub(crate) fn write(folder: &Path, name: &str, text: &str) -> Outcome<()> {
    let unfinished = folder.join(format!("{name}.new"));
    fs::write(&unfinished, text)?;
    Ok(fs::rename(unfinished, folder.join(name))?)
}

/// Returns the time by the system's clock, to a second: `2026-03-01T12:00:00Z`.
fn now() -> String {
    let now = mongodb::bson::DateTime::from_system_time(std::time::SystemTime::now());
    let whole = Duration::from_millis(now.timestamp_millis().unsigned_abs()).as_secs() * 1_000;
    let whole = mongodb::bson::DateTime::from_millis(whole.cast_signed());
    whole.try_to_rfc3339_string().unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with figures that were made up, which the tests of this crate share.
    pub(crate) fn sample() -> Report {
        serde_json::from_str(include_str!("../tests/sample/report.json")).unwrap()
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let (folder, report) = (tempfile::tempdir().unwrap(), sample());
        report.write(folder.path()).unwrap();
        assert_eq!(Report::read(folder.path()).unwrap(), report);
        fs::write(folder.path().join(FILE), r#"{"version": 1}"#).unwrap();
        assert!(Report::read(folder.path()).unwrap_err().to_string().contains("version 1, not 2"));
    }

    #[test]
    fn only_the_same_run_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let begin = |plan: &[&str]| {
            let plan = plan.iter().map(|&step| step.to_owned()).collect();
            Report::begin(plan, true, Machine::this())
        };
        let mut first = begin(&["a: x", "a: y", "b: x"]).continued(folder.path()).unwrap();
        first.done = vec!["a: x".to_owned(), "a: y".to_owned()];
        let (server, why) = ("a".to_owned(), "it was gone".to_owned());
        first.not_run = vec![NotRun { server, case: Some("y".to_owned()), why, failed: true }];
        first.write(folder.path()).unwrap();
        let second = begin(&["a: x", "a: y", "b: x"]).continued(folder.path()).unwrap();
        assert_eq!(
            (second.done, second.not_run),
            (vec!["a: x".to_owned()], vec![]),
            "what failed is tried again"
        );
        assert!(begin(&["a: x"]).continued(folder.path()).unwrap_err().to_string().contains("another plan"));
    }

    #[test]
    fn a_figure_that_is_missing_has_its_reason() {
        let report = sample();
        let why = |server, case| report.row(server, case, Kind::Ours).unwrap_err();
        assert!(report.ours("redis", Case::OwnNames { tasks: 1 }, |row| row.p50_us).is_some());
        assert_eq!(why("redis", Case::Held { locks: 10_000 }), "--quick leaves it out");
        assert_eq!(why("zookeeper", Case::HandOver), "there is no ZooKeeper on this machine");
    }
}
