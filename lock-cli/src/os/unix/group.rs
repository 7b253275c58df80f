//! The command and everything that comes of it, as its parent sees them.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::{exec, own_program};
use crate::exit::Exit;

/// The command's process group. Its leader is our child, and keeps the group's number from being used again until it
/// is buried.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    /// SIGCHLD.
    children: Stream,
}

/// What a group's leader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended,
    Stopped,
}

impl Group {
    /// Starts `command`, which gets the terminal if the group `before` has it.
    pub(super) fn start(command: &[OsString], before: Pid, stdin: OwnedFd) -> io::Result<Group> {
        // Orphans among the command's descendants become children of ours, and so can be found and killed.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        process::set_child_subreaper(Some(process::getpid()))?;
        // Before the start, so that no end goes unnoticed.
        let children = signal(SignalKind::child())?;
        let leader = Command::new(own_program()?)
            .arg0("lock")
            .args(exec::call(process::getpid(), before))
            .args(command)
            .stdin(Stdio::from(stdin))
            .process_group(0)
            .spawn()?;
        let id = Pid::from_child(&leader);
        Ok(Group { leader, id, children })
    }

    /// The group's number.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Resolves when the leader has ended or was stopped. Cancel safe.
    pub(super) async fn change(&mut self) -> io::Result<Change> {
        loop {
            // Looked at without being reaped.
            match self.look(WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT)? {
                None => {
                    orphans::bury_dead(self.id);
                    _ = self.children.recv().await;
                }
                Some(state) if !state.stopped() => return Ok(Change::Ended),
                Some(_) => {
                    // Taken note of. It may have been killed since: then the next look tells.
                    self.look(WaitIdOptions::STOPPED).ok();
                    return Ok(Change::Stopped);
                }
            }
        }
    }

    pub(super) fn signal(&self, signal: Signal) {
        // The group exists, because its leader is not buried. A set-user-ID command that may not be signalled is the
        // one thing that can make this fail; nothing can be done about that.
        let _: rustix::io::Result<()> = process::kill_process_group(self.id, signal);
    }

    /// Kills the whole group, stopped processes included, and what was orphaned so far.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        orphans::kill();
    }

    /// Kills whatever is left, and answers how the leader ended. On Linux nothing that the command has started is alive
    /// then, in whatever group or session it is.
    pub(super) fn end(&mut self) -> io::Result<Exit> {
        self.signal(Signal::KILL);
        let exit = self.leader.wait().map(exit);
        orphans::end();
        exit
    }

    fn look(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        Ok(process::waitid(WaitId::Pid(self.id), options | WaitIdOptions::NOHANG)?)
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// Children that we didn't start: what the command has started, once its own parent has ended.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod orphans {
    use std::fs;

    use nix::errno::Errno;
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    use rustix::process::{Pid, Signal, getpid, kill_process};

    /// Buries those that have ended. The leader is left to be seen.
    pub(super) fn bury_dead(leader: Pid) {
        let dead = |who, flags| waitid(who, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | flags);
        while let Ok(status) = dead(Id::All, WaitPidFlag::WNOWAIT) {
            match status.pid() {
                Some(pid) if pid.as_raw() != leader.as_raw_nonzero().get() => {
                    let _: nix::Result<WaitStatus> = dead(Id::Pid(pid), WaitPidFlag::empty());
                }
                _ => return,
            }
        }
    }

    /// Kills them all, and then those whose parents they were, until none is left. The leader is buried.
    pub(super) fn end() {
        loop {
            match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
                Ok(WaitStatus::StillAlive) => {
                    // None: those that are left are set-user-ID programs, which we may not kill.
                    if kill() == 0 {
                        return;
                    }
                    let _: nix::Result<WaitStatus> =
                        waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                // There is none.
                Err(_) => return,
            }
        }
    }

    /// Kills every child that there is at this moment. Answers how many.
    pub(super) fn kill() -> usize {
        children().into_iter().filter(|&child| kill_process(child, Signal::KILL).is_ok()).count()
    }

    /// None where /proc is missing, or is that of another pid namespace, with other numbers.
    fn children() -> Vec<Pid> {
        let own = getpid().as_raw_nonzero().to_string();
        if fs::read_link("/proc/self").ok().is_none_or(|link| link.as_os_str() != own.as_str()) {
            return Vec::new();
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        numbers
            .filter(|pid| parent(*pid).is_some_and(|parent| parent == own))
            .filter_map(Pid::from_raw)
            .collect()
    }

    /// The fourth field of proc_pid_stat(5). The second, the name, can have anything in it.
    fn parent(pid: i32) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1).map(str::to_owned)
    }
}

/// Elsewhere orphans go to the first process of the system, and can't be told from others.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod orphans {
    pub(super) fn bury_dead(_leader: rustix::process::Pid) {}
    pub(super) fn end() {}
    pub(super) fn kill() {}
}
