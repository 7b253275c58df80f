//! A server's process together with the processes that it has forked.
//!
//! PostgreSQL serves each connection with a separate process in a separate process group. Signals to the server's
//! process or to its group don't reach these.

use std::io;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lock_conformance::harness::Ended;
use rustix::process::{Pid, Signal, kill_process};

use super::child_processes::{self, State};
use super::process::Process;

/// Signals have this long to have an effect.
const LIMIT: Duration = Duration::from_secs(5);

/// A server's process and its children. Dropping it kills all of them.
#[derive(Debug)]
pub(super) struct ProcessTree {
    parent: Process,
    /// The children that were stopped.
    paused: Mutex<Vec<Pid>>,
}

impl ProcessTree {
    pub(super) fn spawn(command: &mut Command) -> io::Result<ProcessTree> {
        Ok(ProcessTree { parent: Process::spawn(command)?, paused: Mutex::default() })
    }

    /// Returns the id of the server's process.
    pub(super) fn id(&self) -> u32 {
        self.parent.id()
    }

    /// Kills all of them (-9), and waits until they are dead.
    pub(super) fn kill(&self) -> io::Result<()> {
        let children = self.kill_children();
        self.parent.kill()?;
        children
    }

    /// Asks the server to end (SIGTERM), and waits for that for at most `limit`.
    pub(super) fn terminate(&self, limit: Duration) -> io::Result<Ended> {
        self.parent.terminate(limit)
    }

    /// Stops all of them (SIGSTOP), and waits until they are stopped.
    pub(super) fn pause(&self) -> io::Result<()> {
        let mut paused = self.paused();
        self.parent.pause()?;
        // From here on no child is forked, and no child that ends is reaped, so their ids stay valid.
        *paused = child_processes::children(self.parent.pid())?;
        for child in &*paused {
            signal(*child, Signal::STOP)?;
        }
        settle(&paused, |state| state.is_stopped() || state.is_dead())
    }

    /// Lets all of them continue (SIGCONT).
    pub(super) fn resume(&self) -> io::Result<()> {
        for child in self.paused().drain(..) {
            signal(child, Signal::CONT)?;
        }
        self.parent.resume()
    }

    /// Returns how the server ended; `None` if it runs.
    pub(super) fn ended(&self) -> io::Result<Option<Ended>> {
        self.parent.ended()
    }

    /// Kills the children while the server is stopped. Otherwise it could react to their end, or start others.
    fn kill_children(&self) -> io::Result<()> {
        self.parent.pause()?;
        let children = child_processes::children(self.parent.pid())?;
        for child in &children {
            signal(*child, Signal::KILL)?;
        }
        settle(&children, State::is_dead)
    }

    fn paused(&self) -> MutexGuard<'_, Vec<Pid>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        // Nothing can be done about an error. The parent's own drop kills it.
        let _ = self.kill();
    }
}

/// Sends a signal. A process that has ended needs none.
fn signal(to: Pid, signal: Signal) -> io::Result<()> {
    match kill_process(to, signal) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        sent => Ok(sent?),
    }
}

/// Waits until each process is in such a state.
fn settle(processes: &[Pid], such: impl Fn(State) -> bool) -> io::Result<()> {
    let start = Instant::now();
    for process in processes {
        while !such(child_processes::state(*process)?) {
            if start.elapsed() > LIMIT {
                let process = process.as_raw_nonzero();
                return Err(io::Error::other(format!("process {process} ignores a signal")));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}
