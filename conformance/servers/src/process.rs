//! A child process that can be killed and stopped, and that does not outlive the process that started it.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lock_conformance::harness::Ended;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};

use super::pipes::Pipes;
use super::waiting::until;

/// A child process, the leader of its own process group.
///
/// It is reaped only when it is dropped. Until then its id can't become another process's id, so no signal reaches a
/// wrong process. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    _cleanup: CleanupOnExit,
}

impl Process {
    /// Starts a program that does not outlive this one.
    ///
    /// # Errors
    ///
    /// If it can't be started.
    pub fn spawn(command: &mut Command) -> io::Result<Process> {
        let (child, cleanup) = spawn(command)?;
        Ok(Process { child, _cleanup: cleanup })
    }

    /// Starts a program as [`spawn`](Self::spawn) does, whose input and output are pipes.
    ///
    /// # Errors
    ///
    /// If it can't be started.
    pub fn spawn_with_pipes(command: &mut Command) -> io::Result<(Process, Pipes)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(command)?;
        let pipes = Pipes::of(&mut process.child);
        Ok((process, pipes))
    }

    /// Runs a program that does not outlive this one, to its end.
    #[cfg(feature = "sql")]
    pub(super) fn output(command: &mut Command) -> io::Result<std::process::Output> {
        let (child, _cleanup) = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        child.wait_with_output()
    }

    /// Returns its id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills this process alone (-9), and waits until it is dead.
    ///
    /// # Errors
    ///
    /// If the signal can't be sent.
    pub fn kill(&self) -> io::Result<()> {
        kill_process(self.pid(), Signal::KILL)?;
        self.await_state(WaitIdOptions::EXITED)?;
        Ok(())
    }

    /// Asks it to end (SIGTERM), and waits for that for at most `limit`.
    ///
    /// # Errors
    ///
    /// If it has not ended by then.
    pub fn terminate(&self, limit: Duration) -> io::Result<Ended> {
        kill_process(self.pid(), Signal::TERM)?;
        self.wait(limit)?.ok_or_else(|| io::Error::other(format!("process {} ignores SIGTERM", self.id())))
    }

    /// Stops it (SIGSTOP), and waits until it is stopped.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn pause(&self) -> io::Result<()> {
        kill_process(self.pid(), Signal::STOP)?;
        let state = self.await_state(WaitIdOptions::EXITED | WaitIdOptions::STOPPED)?;
        match state.is_some_and(|state| state.stopped()) {
            true => Ok(()),
            false => Err(io::Error::other(format!("process {} has ended", self.id()))),
        }
    }

    /// Lets it continue (SIGCONT).
    ///
    /// # Errors
    ///
    /// If the signal can't be sent.
    pub fn resume(&self) -> io::Result<()> {
        Ok(kill_process(self.pid(), Signal::CONT)?)
    }

    /// Returns how it ended; `None` if it runs.
    ///
    /// # Errors
    ///
    /// If the system does not tell.
    pub fn ended(&self) -> io::Result<Option<Ended>> {
        let state = self.await_state(WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
        Ok(state.and_then(|state| {
            let status = state.exit_status().map(Ended::Status);
            status.or_else(|| state.terminating_signal().map(Ended::Signal))
        }))
    }

    /// Waits until it has ended; `None` if it still runs after `limit`.
    ///
    /// # Errors
    ///
    /// If the system does not tell.
    pub fn wait(&self, limit: Duration) -> io::Result<Option<Ended>> {
        until(limit, Duration::from_millis(2), || self.ended())
    }

    /// Waits with NOWAIT, because this must not reap the process.
    fn await_state(&self, what: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        loop {
            match waitid(WaitId::Pid(self.pid()), what | WaitIdOptions::NOWAIT) {
                Err(rustix::io::Errno::INTR) => {}
                answer => return Ok(answer?),
            }
        }
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

fn spawn(command: &mut Command) -> io::Result<(Child, CleanupOnExit)> {
    let mut child = command.process_group(0).spawn()?;
    match CleanupOnExit::kill_all(&child) {
        Ok(cleanup) => Ok((child, cleanup)),
        Err(error) => {
            child.kill()?;
            child.wait()?;
            Err(error)
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing can be done about an error of either.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// The action to take if this process ends without having cleaned up: because it was killed, because it aborted, or
/// because the server is in a static, which is never dropped.
///
/// A shell waits at the end of a pipe that only this process holds open, and runs the action when the pipe is closed.
#[derive(Debug)]
pub(super) struct CleanupOnExit {
    shell: Child,
}

impl CleanupOnExit {
    /// Kills the process, its group, and the children that it has in other groups. It is stopped first, so that it
    /// starts no more of them.
    fn kill_all(child: &Child) -> io::Result<CleanupOnExit> {
        let action = "{
            kill -s STOP $1
            children=$(pgrep -P $1 || grep -lsx \"PPid:.$1\" /proc/[0-9]*/status | tr -cd '0-9\\n')
            kill -s KILL $children
            kill -s KILL -- -$1
        }";
        CleanupOnExit::new(action, child.id().to_string().as_ref())
    }

    pub(super) fn remove(folder: &Path) -> io::Result<CleanupOnExit> {
        // A server that is being killed at the same moment may still write into the folder.
        CleanupOnExit::new("rm -rf -- \"$1\" || { sleep 1; rm -rf -- \"$1\"; }", folder.as_ref())
    }

    fn new(action: &str, on: &OsStr) -> io::Result<CleanupOnExit> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(format!("read -r withdrawn || {action}")).arg("cleanup-on-exit").arg(on);
        // The shell has its own group, so that Ctrl-C at a terminal does not end it first.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(CleanupOnExit { shell: shell.spawn()? })
    }
}

impl Drop for CleanupOnExit {
    /// Withdraws the order.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            let _ = pipe.write_all(b"withdrawn\n");
        }
        let _ = self.shell.wait();
    }
}
