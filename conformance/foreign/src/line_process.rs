//! A process that prints a line for each thing that it sees.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lock_test_servers::{Pipes, Process};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The number of the last lines on its stderr that are kept.
const STDERR_LINES_KEPT: usize = 12;

/// A process that prints lines, and is sent some. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct LineProcess {
    process: Process,
    stdin: ChildStdin,
    said: UnboundedReceiver<String>,
    /// A line that it has printed and that no caller has taken yet.
    heard: Option<String>,
    stderr_lines: Arc<Mutex<Vec<String>>>,
}

impl LineProcess {
    pub(super) fn spawn(command: &mut Command) -> io::Result<LineProcess> {
        let (process, Pipes { stdin, stdout, stderr }) = Process::spawn_with_pipes(command)?;
        let (lines, said) = unbounded_channel();
        // The threads end with the pipes, or when the receiver is dropped.
        thread::spawn(move || lines_of(stdout).try_for_each(|line| lines.send(line)));
        let stderr_lines = Arc::new(Mutex::new(Vec::new()));
        let kept = stderr_lines.clone();
        thread::spawn(move || {
            for line in lines_of(stderr) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push(line);
                let surplus = kept.len().saturating_sub(STDERR_LINES_KEPT);
                kept.drain(..surplus);
            }
        });
        Ok(LineProcess { process, stdin, said, heard: None, stderr_lines })
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    /// Sends a line to the process.
    pub(super) fn tell(&mut self, line: &str) -> io::Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes())
    }

    /// Returns whether it has printed a line that was not taken yet.
    pub(super) fn has_line(&mut self) -> bool {
        if self.heard.is_none() {
            self.heard = self.said.try_recv().ok();
        }
        self.heard.is_some()
    }

    /// Returns its next line. The error includes the last lines on its stderr.
    pub(super) async fn line(&mut self, limit: Duration) -> Result<String, String> {
        if let Some(line) = self.heard.take() {
            return Ok(line);
        }
        match tokio::time::timeout(limit, self.said.recv()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(format!("it has ended{}", self.stderr_lines())),
            Err(_) => Err(format!("it says nothing for {limit:?}{}", self.stderr_lines())),
        }
    }

    /// Returns the last lines on its stderr, behind a colon.
    pub(super) fn stderr_lines(&self) -> String {
        let stderr_lines = self.stderr_lines.lock().unwrap_or_else(PoisonError::into_inner);
        if stderr_lines.is_empty() { String::new() } else { format!(": {}", stderr_lines.join(" | ")) }
    }
}

fn lines_of(pipe: impl io::Read) -> impl Iterator<Item = String> {
    BufReader::new(pipe).lines().map_while(Result::ok)
}
