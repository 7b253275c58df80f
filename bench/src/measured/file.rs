//! A file that `quick --json` has written.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::quick::lines::{End, Line, NotRun, Run, Server, VERSION};
use crate::report::Row;

/// What the file holds.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) run: Run,
    pub(super) servers: Vec<Server>,
    pub(super) rows: Vec<Row>,
    pub(super) not_run: Vec<NotRun>,
    /// `None` if the run was interrupted.
    pub(super) end: Option<End>,
}

impl Measured {
    pub(super) fn read(path: &Path) -> Outcome<Measured> {
        let of_file = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = fs::read_to_string(path).map_err(|e| of_file(&e))?;
        Ok(Measured::parse(&text).map_err(|e| of_file(&e))?)
    }

    pub(super) fn parse(text: &str) -> Outcome<Measured> {
        let mut lines = text.lines();
        let first = lines.next().ok_or("it is empty")?;
        let Ok(Line::Run { run }) = serde_json::from_str(first) else {
            return Err("its first line is not that of a run of quick --json".into());
        };
        if run.version != VERSION {
            return Err(format!("its lines have version {}, not {VERSION}", run.version).into());
        }
        let mut measured =
            Measured { run, servers: Vec::new(), rows: Vec::new(), not_run: Vec::new(), end: None };
        for (n, line) in lines.enumerate() {
            let line = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", n + 2))?;
            measured.add(line)?;
        }
        Ok(measured)
    }

    fn add(&mut self, line: Line) -> Outcome<()> {
        match line {
            Line::Run { .. } => return Err("it holds more than one run".into()),
            Line::Server { server } => self.servers.push(server),
            Line::NotRun { not_run } => self.not_run.push(not_run),
            Line::End { end } => self.end = Some(end),
            Line::Row(row) => self.rows.push(*row),
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::machine::Machine;

    /// Returns the text of a file with these lines after the first one.
    pub(in crate::measured) fn text(lines: &[Line]) -> String {
        let run = Run {
            version: VERSION,
            began: "2026-03-01T12:00:00Z".to_owned(),
            revision: Some("0123abcd".to_owned()),
            seconds: 12,
            machine: Machine::this(1),
        };
        let first = Line::Run { run };
        let all = std::iter::once(&first).chain(lines).map(serde_json::to_string);
        all.collect::<Result<Vec<_>, _>>().unwrap().join("\n")
    }

    #[test]
    fn every_line_has_its_place() {
        let end = End { took_s: 2.0, failed: 0 };
        let row = Row { backend: "redis".to_owned(), ..Row::default() };
        let read =
            Measured::parse(&text(&[Line::Row(Box::new(row.clone())), Line::End { end: end.clone() }]))
                .unwrap();
        assert_eq!((read.rows, read.end, read.run.seconds), (vec![row], Some(end), 12));
        assert!(Measured::parse(&text(&[])).unwrap().end.is_none(), "it was interrupted");
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let refused = |text: &str| Measured::parse(text).unwrap_err().to_string();
        assert!(refused("").contains("empty"));
        assert!(refused(r#"{"workload":"hold"}"#).contains("first line"));
        assert!(refused(&text(&[]).replacen(r#""version":1"#, r#""version":2"#, 1)).contains("version 2"));
        assert!(refused(&format!("{}\n{{", text(&[]))).contains("line 2"));
        assert!(refused(&format!("{0}\n{0}", text(&[]))).contains("more than one"));
    }
}
