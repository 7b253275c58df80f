//! What a run has done, in a file that a later run with the same folder reads and continues.
//!
//! Each line of the file is a JSON object. The first one says which run it is. A line is written at once, so that a run
//! that is killed loses no more than the step that it is in.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::judged::Played;
use super::report::{NotRun, Row, ServerReport, VERSION};
use crate::Outcome;
use crate::machine::Machine;

/// The file's name in the folder of a run.
const FILE: &str = "steps.jsonl";

/// Which run it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    version: u32,
    pub(crate) began: String,
    /// The lines of the plan.
    plan: Vec<String>,
    pub(crate) machine: Machine,
}

/// What a run has learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    /// A server was started, or connected to.
    Started(ServerReport),
    /// This machine doesn't have the server.
    Absent(ServerReport),
    /// The server has to be there, and can't be measured.
    Failed(ServerReport),
    Step(StepRecord),
}

impl Record {
    /// Returns the server, if this is about a server itself.
    pub(crate) fn server(&self) -> Option<&ServerReport> {
        match self {
            Record::Started(server) | Record::Absent(server) | Record::Failed(server) => Some(server),
            Record::Step(_) => None,
        }
    }
}

/// One step that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    pub(crate) key: String,
    pub(crate) ended: String,
    /// How long it took, with the start of its server if it was the first one there.
    #[serde(default)]
    pub(crate) took_s: f64,
    pub(crate) outcome: StepOutcome,
}

/// How a step has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepOutcome {
    Measured(Vec<Row>),
    /// Claims were tried.
    Played(Vec<Played>),
    /// It can't be measured on this server.
    NotRun(NotRun),
    /// A later run measures it again.
    Failed(NotRun),
}

/// The file of one run, open for this process alone.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    header: Header,
    records: Vec<Record>,
}

impl Header {
    pub(crate) fn new(began: String, plan: Vec<String>, machine: Machine) -> Header {
        Header { version: VERSION, began, plan, machine }
    }

    /// Checks that figures of this run may stand beside those of the run `earlier`.
    fn continues(&self, earlier: &Header) -> Result<(), String> {
        if self.version != earlier.version {
            return Err(format!("of version {} of this program's file", earlier.version));
        }
        if self.machine.fixed != earlier.machine.fixed {
            let (now, then) = (&self.machine.fixed, &earlier.machine.fixed);
            return Err(format!("of another machine or build: {then:?}; this is {now:?}"));
        }
        if self.plan != earlier.plan {
            let differs = |(now, then): &(&String, &String)| now != then;
            let first = self.plan.iter().zip(&earlier.plan).find(differs);
            return Err(match first {
                Some((now, then)) => format!("of another plan: it measures {then:?}, this run {now:?}"),
                None => format!(
                    "of another plan: it has {} steps, this run {}",
                    earlier.plan.len(),
                    self.plan.len()
                ),
            });
        }
        Ok(())
    }
}

impl Log {
    /// Opens the log in the folder, which is made if it is missing. If there is a log of a run with the same plan on
    /// the same machine, that run is continued.
    pub(crate) fn open(folder: &Path, header: Header) -> Outcome<Log> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        file.try_lock().map_err(|e| format!("{} is in use by another run: {e}", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A run that was killed may have written a part of its last line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        file.seek(SeekFrom::End(0))?;
        let mut lines = text[..whole].lines();
        let Some(first) = lines.next() else {
            let mut log = Log { file, header, records: Vec::new() };
            log.write(&log.header.clone())?;
            return Ok(log);
        };
        let read_as = |e: String| format!("{}: {e}", path.display());
        let earlier: Header = parse(first).map_err(read_as)?;
        header.continues(&earlier).map_err(|of| {
            format!(
                "{} holds a run {of}; name another folder with --out, or remove this one",
                folder.display()
            )
        })?;
        let records = lines.map(parse).collect::<Result<_, _>>().map_err(read_as)?;
        Ok(Log { file, header: earlier, records })
    }

    pub(crate) fn append(&mut self, record: Record) -> Outcome<()> {
        self.write(&record)?;
        self.records.push(record);
        Ok(())
    }

    /// Returns whether the step need not be measured any more.
    pub(crate) fn is_finished(&self, key: &str) -> bool {
        self.steps().any(|step| step.key == key && !matches!(step.outcome, StepOutcome::Failed(_)))
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the steps that have ended, the last outcome of each.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.records.iter().enumerate().filter_map(|(at, record)| match record {
            Record::Step(step) if !self.is_repeated(at, &step.key) => Some(step),
            _ => None,
        })
    }

    fn is_repeated(&self, at: usize, key: &str) -> bool {
        self.records[at + 1..].iter().any(|record| matches!(record, Record::Step(step) if step.key == key))
    }

    fn write(&mut self, value: &impl Serialize) -> Outcome<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        Ok(self.file.write_all(&line)?)
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|e| format!("a line can't be read: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(plan: &[&str]) -> Header {
        let plan = plan.iter().map(|&line| line.to_owned()).collect();
        Header::new("2026-03-01T12:00:00Z".to_owned(), plan, Machine::this(1))
    }

    fn step(key: &str, failed: Option<&str>) -> Record {
        let outcome = match failed {
            None => StepOutcome::Measured(Vec::new()),
            Some(why) => StepOutcome::Failed(NotRun {
                server: "s".to_owned(),
                workload: "w".to_owned(),
                why: why.to_owned(),
            }),
        };
        Record::Step(StepRecord { key: key.to_owned(), ended: String::new(), took_s: 0.0, outcome })
    }

    #[test]
    fn a_run_goes_on_where_the_last_one_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), header(&["a", "b"])).unwrap();
        log.append(step("a", None)).unwrap();
        log.append(step("b", Some("the server was gone"))).unwrap();
        drop(log);
        let later = Header { began: "2026-03-02T12:00:00Z".to_owned(), ..header(&["a", "b"]) };
        let mut log = Log::open(folder.path(), later).unwrap();
        assert_eq!(log.header().began, "2026-03-01T12:00:00Z");
        assert_eq!((log.is_finished("a"), log.is_finished("b")), (true, false));
        log.append(step("b", None)).unwrap();
        assert!(log.is_finished("b"));
        assert_eq!(log.steps().count(), 2, "the failure was followed by a measurement");
    }

    #[test]
    fn a_line_that_was_cut_off_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::open(folder.path(), header(&["a", "b"])).unwrap();
        log.append(step("a", None)).unwrap();
        log.file.write_all(br#"{"step":{"key":"b""#).unwrap();
        drop(log);
        let mut log = Log::open(folder.path(), header(&["a", "b"])).unwrap();
        assert_eq!((log.is_finished("a"), log.is_finished("b")), (true, false));
        log.append(step("b", None)).unwrap();
        drop(log);
        let log = Log::open(folder.path(), header(&["a", "b"])).unwrap();
        assert!(log.is_finished("b"));
    }

    #[test]
    fn another_plan_or_machine_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(Log::open(folder.path(), header(&["a", "b"])).unwrap());
        let refused = |header| Log::open(folder.path(), header).unwrap_err().to_string();
        assert!(refused(header(&["a", "c"])).contains("another plan"));
        assert!(refused(header(&["a"])).contains("2 steps, this run 1"));
        let mut elsewhere = header(&["a", "b"]);
        elsewhere.machine.fixed.cpus += 1;
        assert!(refused(elsewhere).contains("another machine"));
        let mut busier = header(&["a", "b"]);
        busier.machine.load = Some(100.0);
        assert!(Log::open(folder.path(), busier).is_ok());
    }

    #[test]
    fn one_run_at_a_time_uses_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _log = Log::open(folder.path(), header(&["a"])).unwrap();
        assert!(Log::open(folder.path(), header(&["a"])).unwrap_err().to_string().contains("another run"));
    }
}
