//! The command and everything that comes of it, as its parent sees them.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use super::orphans::Orphans;
use super::signals::hear_of_children;
use super::terminal::LockGroup;
use super::{exec, own_program};
use crate::exit::Exit;

/// The command's process group. Its leader is our child, and keeps the group's number from being used again until it
/// is buried.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    orphans: Orphans,
}

/// What a group's leader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended,
    Stopped,
}

impl Group {
    /// Starts `command`, which gets the terminal if the group `before` has it.
    pub(super) fn start(command: &[OsString], before: LockGroup, stdin: OwnedFd) -> io::Result<Group> {
        let orphans = Orphans::adopt()?;
        let leader = Command::new(own_program()?)
            .arg0("lock")
            .args(exec::call(process::getpid(), before))
            .args(command)
            .stdin(Stdio::from(stdin))
            .process_group(0)
            .spawn()?;
        hear_of_children();
        let id = Pid::from_child(&leader);
        Ok(Group { leader, id, orphans })
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
                    self.orphans.bury_dead(self.id);
                    self.orphans.change().await;
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

    /// For the group, and for its leader if that has left it.
    pub(super) fn signal(&self, signal: Signal) {
        // Asked before: the signal may end the leader.
        let leader_is_elsewhere = self.leader_is_elsewhere();
        // Both numbers are the command's, because its leader is not buried. A set-user-ID command may not be signalled;
        // nothing can be done about that.
        let _: rustix::io::Result<()> = process::kill_process_group(self.id, signal);
        if leader_is_elsewhere {
            let _: rustix::io::Result<()> = process::kill_process(self.id, signal);
        }
    }

    /// A process may go over to another group of its session, the leader of one too (setpgid(2)).
    fn leader_is_elsewhere(&self) -> bool {
        let id = nix::unistd::Pid::from_raw(self.id.as_raw_nonzero().get());
        // Not by rustix, for which a group that is outside of our PID namespace, 0, is none.
        nix::unistd::getpgid(Some(id)).is_ok_and(|group| group != id)
    }

    /// Kills the whole group, stopped processes included, its leader wherever that is, and what was orphaned so far.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        self.orphans.kill();
    }

    /// Kills whatever is left, and answers how the leader ended. On Linux nothing that the command has started is alive
    /// then, in whatever group or session it is.
    pub(super) async fn end(&mut self) -> io::Result<Exit> {
        self.signal(Signal::KILL);
        let exit = self.leader.wait().map(exit);
        self.orphans.end().await;
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
