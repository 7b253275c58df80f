//! Replaces server processes where there is no Unix. No server is started.

use std::io;
use std::process::Command;
use std::time::Duration;

use lock_conformance::harness::Ended;

use super::process::Process;

/// A server's process, which cannot exist here.
#[derive(Debug)]
pub(super) enum ProcessTree {}

impl ProcessTree {
    pub(super) fn spawn(command: &mut Command) -> io::Result<ProcessTree> {
        match Process::spawn(command)? {}
    }

    pub(super) fn id(&self) -> u32 {
        match *self {}
    }

    pub(super) fn kill(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn stop(&self, _: Duration) -> io::Result<Ended> {
        match *self {}
    }

    pub(super) fn pause(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn resume(&self) -> io::Result<()> {
        match *self {}
    }

    pub(super) fn ended(&self) -> io::Result<Option<Ended>> {
        match *self {}
    }
}
