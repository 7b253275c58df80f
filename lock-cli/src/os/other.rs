//! Systems without process groups and signals, such as Windows. The command is one process, which shares the console
//! and gets its Ctrl-C from there. It can't be asked to end, only killed, and the processes that it has started are not
//! killed.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::{Daemons, Event};
use crate::exit::{About, Exit, Failure};

/// The command's process.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// No watcher keeps the command's deadlines.
    pub(crate) const KEEPS_TO_DEADLINES: bool = false;

    /// Starts `command` with `variables` added to the environment.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        _deadline: Deadline,
        _daemons: Daemons,
    ) -> Result<Process, Failure> {
        let child = Command::new(&command[0])
            .args(&command[1..])
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .kill_on_drop(true)
            .spawn();
        child.map(Process).map_err(|e| Failure::of_exec(&command[0], &e))
    }

    /// Waits until the process has ended. Cancel safe.
    pub(crate) async fn event(&mut self) -> Result<Event, Failure> {
        self.0.wait().await.about("the command's process")?;
        Ok(Event::Ended)
    }

    pub(crate) fn kill_at(&mut self, _deadline: Deadline) {}

    pub(crate) fn go_on(&self) {}

    /// Does nothing: the console sends Ctrl-C to the command itself.
    pub(crate) fn forward(&self, _signal: Signal) {}

    pub(crate) fn terminate(&self) {}

    pub(crate) fn kill(&mut self) {
        // Fails if the command has ended already.
        let _: io::Result<()> = self.0.start_kill();
    }

    pub(crate) fn let_go(&mut self) {}

    /// After [`Event::Ended`].
    pub(crate) fn reap(&mut self) {}

    /// After [`Event::Ended`]: returns how the process ended.
    pub(crate) fn exit(&mut self) -> Exit {
        let status = self.0.try_wait().ok().flatten().and_then(|status| status.code());
        status.map_or(Exit::System, Exit::Status)
    }
}

/// A deadline without effect: here only this process itself ends the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline;

impl Deadline {
    pub(crate) fn after(_left: impl FnOnce() -> Duration) -> Deadline {
        Deadline
    }

    pub(crate) fn later(self, _time: Duration) -> Deadline {
        self
    }

    /// Never resolves: no deadline is kept here.
    pub(crate) async fn reached(self) {
        std::future::pending().await
    }
}

/// Returns `Ok`: here a runtime needs no descriptors.
pub(crate) fn room_for_a_runtime() -> io::Result<()> {
    Ok(())
}

/// Returns `Ok`: here no limit of threads is known.
pub(crate) fn room_for_threads() -> io::Result<()> {
    Ok(())
}

/// Returns `None`: there are no inner calls here.
pub(crate) fn inner_call(_args: impl Iterator<Item = OsString>) -> Option<Result<Exit, Failure>> {
    None
}

/// Does nothing: here no signal reports a full file.
pub(crate) fn outlive_full_files() {}

/// Does nothing: here no signal stops a process that reads its console.
pub(crate) fn fail_instead_of_stopping() -> io::Result<()> {
    Ok(())
}

/// Does nothing: here no signal stops a process that writes to its console.
pub(crate) fn write_instead_of_stopping() {}

/// An output that can be waited for: any, because no output here refuses text for lack of room.
pub(crate) trait Descriptor {}
impl<T> Descriptor for T {}

/// Returns false: here only a write shows that an output has no reader.
pub(crate) fn has_no_reader(_output: &impl Descriptor) -> bool {
    false
}

/// Lets other threads run: there is nothing to wait for.
pub(crate) fn wait_for_room(_output: &impl Descriptor) {
    std::thread::yield_now();
}

/// Returns false: here a read is not known to return at once.
pub(crate) fn stdin_is_ready() -> bool {
    false
}

/// No service manager is told anything here.
#[derive(Clone, Debug)]
pub(crate) enum ServiceManager {}

impl ServiceManager {
    pub(crate) fn of_this_process() -> Option<ServiceManager> {
        None
    }

    pub(crate) fn notify(&self, _state: &str) {
        match *self {}
    }
}

/// Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal;

impl Signal {
    /// The number that it has on Unix, so that the exit status is the same.
    pub(crate) fn number(self) -> i32 {
        2
    }

    pub(crate) fn asks_to_end(self) -> bool {
        true
    }

    pub(crate) fn continues(self) -> bool {
        false
    }
}

/// Receives Ctrl-C. From now on it does not end this process.
#[derive(Debug)]
pub(crate) struct Signals(());

impl Signals {
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals(()))
    }

    pub(crate) async fn next_to_pass_on(&mut self) -> Signal {
        self.next().await
    }

    /// Waits for the next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Signal,
            // There is no console, and so no Ctrl-C.
            Err(_) => std::future::pending().await,
        }
    }
}
