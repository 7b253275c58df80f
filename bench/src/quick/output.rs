//! What a run prints, while it goes on.

use std::time::{Duration, Instant};

use lock_core::toolkit::HumanDuration;

use super::lines::{End, Line, NotRun, Run, Server};
use crate::Outcome;
use crate::report::{Format, Row};

/// The output of one run.
pub(super) struct Output {
    format: Format,
    /// Printed before everything else; `None` once that is done.
    head: Option<Run>,
    began: Instant,
    /// How many servers were measured.
    measured: usize,
    failed: usize,
}

impl Output {
    pub(super) fn new(format: Format, head: Run) -> Output {
        Output { format, head: Some(head), began: Instant::now(), measured: 0, failed: 0 }
    }

    /// Begins with a server.
    pub(super) fn server(&mut self, server: Server) {
        let Server { backend, product, address, .. } = &server;
        let text = [Some(backend.as_str()), product.as_deref(), Some(address)];
        let text: Vec<&str> = text.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        eprintln!("{}", text.join(", "));
        self.measured += 1;
        self.line(&Line::Server { server });
    }

    pub(super) fn row(&mut self, row: &Row) {
        self.begin();
        self.format.row(row);
    }

    pub(super) fn not_run(&mut self, not_run: NotRun) {
        let NotRun { backend, workload, why, failed } = &not_run;
        let what = workload.as_ref().map_or(backend.clone(), |workload| format!("{workload} on {backend}"));
        eprintln!("{what}: {}, because {why}", if *failed { "failed" } else { "not run" });
        self.failed += usize::from(*failed);
        self.line(&Line::NotRun { not_run });
    }

    /// Ends the run.
    ///
    /// # Errors
    ///
    /// If nothing was measured, or something failed.
    pub(super) fn end(mut self) -> Outcome<()> {
        let took = self.began.elapsed();
        eprintln!("measured in {}", HumanDuration(Duration::from_secs(took.as_secs())));
        self.line(&Line::End { end: End { took_s: took.as_secs_f64(), failed: self.failed } });
        match (self.measured, self.failed) {
            (0, _) => Err("nothing was measured".into()),
            (_, 0) => Ok(()),
            (_, failed) => Err(format!("of what was asked for, {failed} could not be measured").into()),
        }
    }

    fn line(&mut self, line: &Line) {
        self.begin();
        self.format.object(line);
    }

    fn begin(&mut self) {
        if let Some(run) = self.head.take() {
            self.format.head();
            self.format.object(&Line::Run { run });
        }
    }
}
