//! Replaces processes where there is no Unix. No process is started: servers come from URLs, and cases with holders are
//! not run.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lock_conformance::harness::Ended;

use super::pipes::Pipes;

/// A child process, which cannot exist here.
#[derive(Debug)]
pub enum Process {}

#[allow(missing_docs, reason = "they are documented where there is such a process")]
impl Process {
    pub fn spawn(_: &mut Command) -> io::Result<Process> {
        Err(unsupported())
    }

    pub fn spawn_with_pipes(_: &mut Command) -> io::Result<(Process, Pipes)> {
        Err(unsupported())
    }

    #[cfg(feature = "sql")]
    pub(super) fn output(_: &mut Command) -> io::Result<std::process::Output> {
        Err(unsupported())
    }

    pub fn id(&self) -> u32 {
        match *self {}
    }

    pub fn kill(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn terminate(&self, _: Duration) -> io::Result<Ended> {
        match *self {}
    }

    pub fn pause(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn resume(&self) -> io::Result<()> {
        match *self {}
    }

    pub fn ended(&self) -> io::Result<Option<Ended>> {
        match *self {}
    }

    pub fn wait(&self, _: Duration) -> io::Result<Option<Ended>> {
        match *self {}
    }
}

#[derive(Debug)]
pub(super) enum CleanupOnExit {}

impl CleanupOnExit {
    pub(super) fn remove(_: &Path) -> io::Result<CleanupOnExit> {
        Err(unsupported())
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "processes are started on Unix only")
}
