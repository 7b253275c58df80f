//! Unix: a watcher process between `lock` and the command ends the command in time, whatever happens to `lock`.
//!
//! The watcher, and the process that becomes the command, are further calls of this program ([`inner_call`]),
//! identified by their first argument. So no code runs between `fork` and `exec`, where it would need `unsafe`.
//!
//! ```text
//! lock run … -- CMD      holds the lock; has the terminal's group
//!   └ lock __watch …     a group of its own; knows until when the lock is certain
//!       └ CMD            a group of its own, the terminal's foreground; began as `lock __exec …`
//! ```

mod channel;
mod deadline;
mod descendants;
mod detach;
mod exec;
mod group;
mod room;
mod service;
mod signals;
mod terminal;
mod watcher;

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{self, Pid};
use rustix::termios;

pub(crate) use self::deadline::Deadline;
pub(crate) use self::detach::{close_stderr, detach};
pub(crate) use self::room::{room_for_a_runtime, room_for_threads};
pub(crate) use self::service::ServiceManager;
pub(crate) use self::signals::{
    Signal, Signals, fail_instead_of_stopping, outlive_full_files, write_instead_of_stopping,
};
/// An output that can be waited for.
pub(crate) use std::os::fd::AsFd as Descriptor;

use self::channel::{CHANNEL, Channel, Order, Report, send_with};
use self::descendants::{Descendants, Outcome};
use self::terminal::{LockGroup, Modes, Stop};
use super::{Daemons, Event};
use crate::exit::{About, Exit, Failure};
use crate::{keeper, print};

/// The command, as `lock` sees it. Only the watcher signals and reaps it.
#[derive(Debug)]
pub(crate) struct Process {
    watcher: Child,
    /// The command's processes, if the watcher is dead.
    descendants: Descendants,
    /// The channel to the watcher. When it is closed, the watcher kills everything.
    channel: Option<Channel>,
    /// The command's process group.
    group: Option<Pid>,
    exit: Option<Exit>,
    /// The last deadline that the watcher was given.
    deadline: Deadline,
    /// Why there is no watcher any more. Then this process ends what is left.
    unwatched: Option<Failure>,
    /// The terminal's modes before the command had the terminal.
    modes: Option<Modes>,
}

impl Process {
    /// True: the watcher keeps the deadlines, whatever happens to this process.
    pub(crate) const KEEPS_TO_DEADLINES: bool = true;

    /// Starts `command` with `variables` added to the environment. The command is killed at the deadline, unless a
    /// later deadline is set before.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        deadline: Deadline,
        daemons: Daemons,
    ) -> Result<Process, Failure> {
        let modes = Modes::of_stdin();
        let descendants = Descendants::adopt()?;
        let (ours, theirs) = Socket::pair().about(CHANNEL)?;
        // Sent before the watcher starts, so that the watcher never waits for it.
        send_with(&ours, Order::KillAt(deadline), stdin().as_fd()).about("stdin, for the command")?;
        let channel = Some(Channel::new(ours)?);
        let program = own_program()?;
        let watcher = Command::new(&program)
            .arg0("lock")
            .args(watcher::call(LockGroup::own(), daemons))
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()
            .about(program.display())?;
        signals::hear_of_children();
        let (group, exit, unwatched) = (None, None, None);
        Ok(Process { watcher, descendants, channel, group, exit, deadline, unwatched, modes })
    }

    /// Waits for the next event. An error means that the watcher has ended, and that nothing of the command is left.
    /// Cancel safe.
    pub(crate) async fn event(&mut self) -> Result<Event, Failure> {
        while let Some(channel) = &mut self.channel {
            let report = tokio::select! {
                biased;
                // First: when the watcher is dead, what is reaped here may be what ends it all below.
                report = channel.receive() => report,
                () = self.descendants.change() => {
                    self.descendants.reap_dead(Some(Pid::from_child(&self.watcher)));
                    continue;
                }
            };
            match report {
                Ok(Some(report)) => match self.event_of(report) {
                    Ok(Some(event)) => return Ok(event),
                    Ok(None) => {}
                    Err(e) => self.end_watcher(e.into()),
                },
                Ok(None) => {
                    let what = "the watcher of the command has ended: the command was killed";
                    self.end_watcher(Failure::new(Exit::System, what));
                }
                Err(e) => self.end_watcher(e.into()),
            }
        }
        self.end_unwatched().await
    }

    fn event_of(&mut self, report: Report) -> io::Result<Option<Event>> {
        Ok(Some(match report {
            Report::Started(group) => {
                self.group = Some(group);
                return Ok(None);
            }
            Report::Stopped if termios::isatty(stdin()) => match self.group {
                Some(group) if LockGroup::own().stop_like(group)? == Stop::OutOfReach => {
                    print::note(OUT_OF_REACH);
                    return Ok(None);
                }
                _ => Event::Stopped,
            },
            Report::Stopped => return Ok(None),
            Report::Ended(exit) => {
                self.exit.get_or_insert(exit);
                Event::Ended
            }
            Report::LeaderEnded(exit) => {
                self.exit = Some(exit);
                self.take_terminal();
                Event::LeaderEnded
            }
            Report::Killed => {
                self.exit = Some(Exit::Signal(process::Signal::KILL.as_raw()));
                Event::Killed
            }
            Report::LeftBehind(count, found) => Event::LeftBehind(count, found),
            Report::GoesOn(survivor) => Event::GoesOn(survivor),
        }))
    }

    /// Tells the watcher until when the lock is certain.
    pub(crate) fn kill_at(&mut self, deadline: Deadline) {
        self.deadline = deadline;
        self.order(Order::KillAt(deadline));
    }

    /// Continues the command after a stop that [`event`](Self::event) has reported.
    pub(crate) fn go_on(&self) {
        if let Some(group) = self.group {
            LockGroup::own().lend_terminal(group);
        }
        self.order(Order::Signal(process::Signal::CONT));
    }

    /// Passes on a signal that this process got.
    pub(crate) fn forward(&self, signal: Signal) {
        self.order(Order::Signal(signal.0));
    }

    /// Sends SIGTERM to the command.
    pub(crate) fn terminate(&self) {
        self.order(Order::Signal(process::Signal::TERM));
    }

    /// Kills everything, including stopped processes.
    pub(crate) fn kill(&self) {
        self.order(Order::Kill);
    }

    /// Leaves what goes on of the command to itself, and takes the terminal back. Daemons that are kept go on; if a
    /// process goes on because it can't be ended, the watcher lives as long, and kills what that one starts.
    pub(crate) fn let_go(&mut self) {
        self.order(Order::LetGo);
        self.take_terminal();
        self.channel = None;
    }

    /// After [`Event::Ended`] or [`Event::Killed`]: takes the terminal back, and waits for the watcher's end.
    pub(crate) fn reap(&mut self) {
        self.take_terminal();
        // Without a channel the watcher is reaped already, or is to live on.
        if self.channel.take().is_some() {
            self.wake_watcher();
            // Fails only if it is reaped already.
            let _: io::Result<_> = self.watcher.wait();
        }
    }

    /// Returns how the command ended, once that was reported.
    pub(crate) fn exit(&mut self) -> Exit {
        self.exit.unwrap_or(Exit::System)
    }

    fn take_terminal(&self) {
        if let Some(group) = self.group {
            LockGroup::own().take_terminal(group);
        }
        if let (Some(Exit::Signal(_)), Some(modes)) = (self.exit, &self.modes) {
            modes.restore();
        }
    }

    fn order(&self, order: Order) {
        let Some(channel) = &self.channel else { return };
        // Fails if the watcher is gone, which the next `event` reports. Also fails if the watcher was stopped and
        // thousands of orders wait for it: then the deadline that it knows is an earlier one, which does no harm.
        let _: io::Result<()> = channel.send(order);
        self.wake_watcher();
    }

    /// Continues the watcher if it was stopped: otherwise it would not carry out orders, nor report the command's end.
    fn wake_watcher(&self) {
        let watcher = Pid::from_child(&self.watcher);
        // The watcher is our child and not reaped yet, so the number is still its own.
        let _: rustix::io::Result<()> = process::kill_process(watcher, process::Signal::CONT);
    }

    /// Ends the watcher, if it lives: it can't be told anything any more. Its children are ours from then on.
    fn end_watcher(&mut self, why: Failure) {
        self.channel = None;
        self.exit = Some(Exit::Signal(process::Signal::KILL.as_raw()));
        // Both fail only if it is gone.
        let _: io::Result<()> = self.watcher.kill();
        let _: io::Result<_> = self.watcher.wait();
        self.descendants.begin_to_end(self.group_of_unwatched(), self.deadline);
        self.unwatched = Some(why);
    }

    /// The command's group, if its number is certain. On Linux it is not: it is another group's if the watcher was in an
    /// inner PID namespace, as after `unshare --pid` alone. There all processes of the command are found without it.
    fn group_of_unwatched(&self) -> Option<Pid> {
        self.group.filter(|_| !cfg!(any(target_os = "linux", target_os = "android")))
    }

    /// Ends what is left when the watcher is dead. On Linux the leader of the command's group has died with the
    /// watcher, and this ends all other processes of the command; elsewhere it ends the group.
    async fn end_unwatched(&mut self) -> Result<Event, Failure> {
        match self.descendants.end(|| None).await {
            Outcome::GoesOn(survivor) => Ok(Event::GoesOn(survivor)),
            Outcome::NothingLeft => {
                self.take_terminal();
                let ended = || Failure::new(Exit::System, "the command has ended");
                Err(self.unwatched.take().unwrap_or_else(ended))
            }
        }
    }
}

impl Drop for Process {
    /// Ends the command in any case: it must not outlive the lock.
    fn drop(&mut self) {
        if self.channel.is_some() {
            self.reap();
        }
    }
}

/// The message to a user at the terminal about a command that was stopped and can't be continued from there.
const OUT_OF_REACH: &str = "the command is stopped, and the lock is still held: in this PID namespace lock can't give the \
                            command the terminal, which it may want to read; Ctrl-C ends the command";

/// Carries out an inner call: one that was made by this program and not by a user. `None` for a user's call.
pub(crate) fn inner_call(mut args: impl Iterator<Item = OsString>) -> Option<Result<Exit, Failure>> {
    match args.next()?.to_str()? {
        watcher::WATCH => Some(watcher::watch(args)),
        exec::BECOME => Some(Err(exec::become_command(args))),
        keeper::KEEP => Some(keeper::keep()),
        _ => None,
    }
}

/// Parses the process number in an argument of an inner call.
fn number(arg: OsString) -> Option<Pid> {
    arg.to_str()?.parse().ok().and_then(Pid::from_raw)
}

/// Returns the path of the running program. On Linux this path leads to it even if its file was replaced.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    match cfg!(any(target_os = "linux", target_os = "android")) {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe().about("the program of lock"),
    }
}

/// Returns whether a read from stdin returns at once: there is something to read, or it is at its end.
pub(crate) fn stdin_is_ready() -> bool {
    let input = stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// Returns whether this output is a pipe or socket whose other end is closed.
pub(crate) fn has_no_reader(output: &impl Descriptor) -> bool {
    let mut polled = [PollFd::new(output, PollFlags::empty())];
    let looked = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    looked.is_ok() && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// Waits until this output has room for more, or can't be written any more.
pub(crate) fn wait_for_room(output: &impl Descriptor) {
    // Fails only for want of memory, and the caller tries again.
    let _: rustix::io::Result<usize> = poll(&mut [PollFd::new(output, PollFlags::OUT)], None);
}
