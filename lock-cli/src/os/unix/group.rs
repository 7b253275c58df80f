//! The command and everything that it starts, as its parent (the watcher) sees them.

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

/// The command's process group. Its leader is our child. Until the leader is reaped (waitpid(2)), the system does not
/// use the group's number again.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    orphans: Orphans,
}

/// What happened to the group's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended,
    Stopped,
}

impl Group {
    /// Starts `command`. It gets the terminal if the group `before` has it.
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

    /// Returns the group's number.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Waits until the leader has ended or was stopped. Cancel safe.
    pub(super) async fn change(&mut self) -> io::Result<Change> {
        loop {
            // Looks at the leader without reaping it.
            match self.look(WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT)? {
                None => {
                    self.orphans.reap_dead(self.id);
                    self.orphans.change().await;
                }
                Some(state) if !state.stopped() => return Ok(Change::Ended),
                Some(_) => {
                    // Consumes this state. If the leader was killed since, the next look shows it.
                    self.look(WaitIdOptions::STOPPED).ok();
                    return Ok(Change::Stopped);
                }
            }
        }
    }

    /// Sends a signal to the group, and to its leader if that has left the group.
    pub(super) fn signal(&self, signal: Signal) {
        // Read before the signal is sent, because the signal may end the leader.
        let leader_is_elsewhere = self.leader_is_elsewhere();
        // Both numbers still belong to the command, because its leader is not reaped yet. A set-user-ID command may
        // refuse signals; there is no remedy for that.
        let _: rustix::io::Result<()> = process::kill_process_group(self.id, signal);
        if leader_is_elsewhere {
            let _: rustix::io::Result<()> = process::kill_process(self.id, signal);
        }
    }

    /// Whether the leader has moved to another group of its session, as any process may, even a leader (setpgid(2)).
    fn leader_is_elsewhere(&self) -> bool {
        let id = nix::unistd::Pid::from_raw(self.id.as_raw_nonzero().get());
        // Not with rustix, which does not accept 0, the number of a group outside of our PID namespace.
        nix::unistd::getpgid(Some(id)).is_ok_and(|group| group != id)
    }

    /// Kills the whole group including stopped processes, its leader wherever that is, and the orphans that exist now.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
        self.orphans.kill();
    }

    /// Kills everything that is left, and returns how the leader ended. On Linux no process that the command has
    /// started is alive then, in whatever group or session it is.
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
