//! The lines of a file of `quick --json`: first the run, then each server with its rows, and at last the end.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::report::Row;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Run { run: Run },
    Server { server: Server },
    NotRun { not_run: NotRun },
    End { end: End },
    Row(Box<Row>),
}

/// The version of these lines. A change that an older reader would misread raises it.
pub(crate) const VERSION: u32 = 1;

/// What was measured, when, and on which machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) version: u32,
    pub(crate) began: String,
    /// The commit that was checked out; `None` if it is not known.
    pub(crate) revision: Option<String>,
    /// How long each workload is measured, in seconds.
    pub(crate) seconds: u64,
    pub(crate) machine: Machine,
}

/// A server that was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// Its name in the rows.
    pub(crate) backend: String,
    /// The product and its version, as a server that this program started tells them.
    pub(crate) product: Option<String>,
    pub(crate) address: String,
    /// Whether it writes to the disk before it acknowledges; `None` if this program doesn't know.
    pub(crate) durable: Option<bool>,
}

/// What was not measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotRun {
    pub(crate) backend: String,
    /// With its parameters; `None` if nothing was measured on this server.
    pub(crate) workload: Option<String>,
    pub(crate) why: String,
    /// Whether it could have been measured here, and was not because something went wrong.
    pub(crate) failed: bool,
}

/// A file without it is of a run that was interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) took_s: f64,
    /// How many workloads and servers failed.
    pub(crate) failed: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_read_as_it_was_written() {
        let run = Run {
            version: VERSION,
            began: "2026-03-01T12:00:00Z".to_owned(),
            revision: None,
            seconds: 12,
            machine: Machine::this(1),
        };
        let server = Server {
            backend: "redis".to_owned(),
            product: Some("redis 7".to_owned()),
            address: "127.0.0.1:6379".to_owned(),
            durable: Some(false),
        };
        let not_run = NotRun {
            backend: "redis".to_owned(),
            workload: Some("delay".to_owned()),
            why: "releases are pushed".to_owned(),
            failed: false,
        };
        for line in [
            Line::Run { run },
            Line::Server { server },
            Line::NotRun { not_run },
            Line::End { end: End { took_s: 1.5, failed: 0 } },
            Line::Row(Box::new(Row { backend: "redis".to_owned(), ratio: Some(0.9), ..Row::default() })),
        ] {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }
}
