//! The command and everything that it starts, as its parent (the watcher) sees them.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use super::descendants::{Descendants, Outcome};
use super::signals::hear_of_children;
use super::terminal::LockGroup;
use super::{Deadline, exec, own_program};
use crate::exit::{About, Exit};
use crate::os::Found;

/// The command's process group. Its leader is our child. Until the leader is reaped (waitpid(2)), the system does not
/// use the group's number again.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    id: Pid,
    /// The leader's end, once it is reaped.
    exit: Option<Exit>,
    descendants: Descendants,
}

/// A change of the group's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended,
    Stopped,
}

impl Group {
    /// Starts `command`. It gets the terminal if the group `before` has it.
    pub(super) fn start(command: &[OsString], before: LockGroup, stdin: OwnedFd) -> io::Result<Group> {
        let descendants = Descendants::adopt()?;
        let program = own_program()?;
        let leader = Command::new(&program)
            .arg0("lock")
            .args(exec::call(process::getpid(), before))
            .args(command)
            .stdin(Stdio::from(stdin))
            .process_group(0)
            .spawn()
            .about(program.display())?;
        hear_of_children();
        let id = Pid::from_child(&leader);
        Ok(Group { leader, id, exit: None, descendants })
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
                    self.descendants.reap_dead(Some(self.id));
                    self.descendants.change().await;
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

    /// Returns whether the leader has moved to another group of its session, as any process may, even a
    /// leader (setpgid(2)).
    fn leader_is_elsewhere(&self) -> bool {
        let id = nix::unistd::Pid::from_raw(self.id.as_raw_nonzero().get());
        // Not with rustix, which does not accept 0, the number of a group outside of our PID namespace.
        nix::unistd::getpgid(Some(id)).is_ok_and(|group| group != id)
    }

    /// Returns how long it takes to find everything that the command has started.
    pub(super) fn cost_of_a_look(&self) -> Duration {
        self.descendants.cost_of_a_look()
    }

    /// After the leader's end: whether it ended by itself. If a signal has ended it, its children may just be ending, too.
    pub(super) fn has_exited(&self) -> bool {
        let looked = self.look(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        looked.ok().flatten().is_some_and(|status| status.exited())
    }

    /// After the leader's end: how many processes it has left running, and one of them.
    pub(super) fn left_behind(&self) -> Option<(u32, Found)> {
        self.descendants.left_behind(self.id)
    }

    /// After the leader's end: how it ended.
    pub(super) fn exit(&mut self) -> Exit {
        self.reap_leader();
        self.exit.unwrap_or(KILLED)
    }

    /// Begins to kill everything, including stopped processes. Until `certain_until` no other holder can have the lock.
    pub(super) fn begin_to_end(&mut self, certain_until: Deadline) {
        // Once the leader is reaped, the number may be another group's.
        let group = self.exit.is_none().then_some(self.id);
        self.descendants.begin_to_end(group, certain_until);
    }

    /// After [`begin_to_end`](Self::begin_to_end): returns when nothing is left, or when a process goes on that was not
    /// returned before. On Linux nothing means that no process that the command has started is alive, in whatever group
    /// or session. Cancel safe.
    pub(super) async fn end(&mut self) -> Outcome {
        let Group { leader, id, exit, descendants } = self;
        descendants.end(|| reap(leader, *id, exit)).await
    }

    fn reap_leader(&mut self) {
        reap(&mut self.leader, self.id, &mut self.exit);
    }

    fn look(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        let looked = process::waitid(WaitId::Pid(self.id), options | WaitIdOptions::NOHANG);
        looked.about(format_args!("process {}", self.id))
    }
}

/// The end of a leader that a tracer keeps from being reaped: it has ended, and nothing but SIGKILL was certain.
const KILLED: Exit = Exit::Signal(Signal::KILL.as_raw());

/// Reads how the leader ended. Returns its number if it has not.
fn reap(leader: &mut Child, id: Pid, exit: &mut Option<Exit>) -> Option<Pid> {
    if exit.is_none() {
        *exit = leader.try_wait().ok().flatten().map(exit_of);
    }
    exit.is_none().then_some(id)
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}
