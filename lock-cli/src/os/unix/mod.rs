//! Unix: a watcher stands between us and the command, and ends the command in time whatever happens to us.
//!
//! The watcher, and the process that becomes the command, are further calls of this program ([`inner_call`]), told apart
//! by their first argument. So nothing runs between `fork` and `exec` that would need `unsafe`.
//!
//! ```text
//! lock run … -- CMD      holds the lock; has the terminal's group
//!   └ lock __watch …     a group of its own; knows until when the lock is certain
//!       └ CMD            a group of its own, the terminal's foreground; began as `lock __exec …`
//! ```

mod channel;
mod deadline;
mod exec;
mod group;
mod orphans;
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

use rustix::process::{self, Pid};
use rustix::termios;

pub(crate) use self::deadline::Deadline;
pub(crate) use self::signals::{Signal, Signals, outlive_full_files};

use self::channel::{Channel, Order, Report, send_with};
use self::orphans::Orphans;
use self::terminal::{LockGroup, Modes, Stop};
use super::Event;
use crate::exit::{Exit, Failure};
use crate::print;

/// The command, as `lock` sees it: through its watcher, which alone signals and buries it.
#[derive(Debug)]
pub(crate) struct Process {
    watcher: Child,
    /// The command's, when the watcher is dead.
    orphans: Orphans,
    /// Its end tells the watcher to kill everything.
    channel: Option<Channel>,
    /// The command's.
    group: Option<Pid>,
    exit: Option<Exit>,
    /// The terminal's, before the command had it.
    modes: Option<Modes>,
}

impl Process {
    /// The watcher does, whatever becomes of us.
    pub(crate) const KEEPS_TO_DEADLINES: bool = true;

    /// Starts `command` with `variables` added to the environment. It is killed at the deadline, unless there is a
    /// later one by then.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        deadline: Deadline,
    ) -> Result<Process, Failure> {
        let modes = Modes::of_stdin();
        let orphans = Orphans::adopt()?;
        let (ours, theirs) = Socket::pair()?;
        // Before the watcher is there, so that it never waits for it.
        send_with(&ours, Order::KillAt(deadline), stdin().as_fd())?;
        let channel = Some(Channel::new(ours)?);
        let watcher = Command::new(own_program()?)
            .arg0("lock")
            .args(watcher::call(LockGroup::own()))
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()?;
        signals::hear_of_children();
        Ok(Process { watcher, orphans, channel, group: None, exit: None, modes })
    }

    /// Resolves when the command has ended or was stopped from the terminal. Cancel safe.
    pub(crate) async fn event(&mut self) -> Result<Event, Failure> {
        while let Some(channel) = &mut self.channel {
            let report = tokio::select! {
                biased;
                // First: when the watcher is dead, what is buried here may be what ends it all below.
                report = channel.receive() => report?,
                () = self.orphans.change() => {
                    self.orphans.bury_dead(Pid::from_child(&self.watcher));
                    continue;
                }
            };
            match report {
                Some(Report::Started(group)) => self.group = Some(group),
                Some(Report::Stopped) if termios::isatty(stdin()) => match self.group {
                    Some(group) if LockGroup::own().stop_like(group)? == Stop::OutOfReach => {
                        print::note(OUT_OF_REACH);
                    }
                    _ => return Ok(Event::Stopped),
                },
                Some(Report::Stopped) => {}
                Some(Report::Ended(exit)) => {
                    self.exit = Some(exit);
                    return Ok(Event::Ended);
                }
                Some(Report::Killed) => {
                    self.exit = Some(Exit::Signal(process::Signal::KILL.as_raw()));
                    return Ok(Event::Killed);
                }
                None => break,
            }
        }
        self.end_unwatched().await?;
        Err(Failure::new(Exit::System, "the watcher of the command has ended: the command was killed"))
    }

    /// Tells until when the lock is certain.
    pub(crate) fn kill_at(&self, deadline: Deadline) {
        self.order(Order::KillAt(deadline));
    }

    /// Takes the command out of the stop that [`event`](Self::event) told of.
    pub(crate) fn go_on(&self) {
        if let Some(group) = self.group {
            LockGroup::own().lend_terminal(group);
        }
        self.order(Order::Signal(process::Signal::CONT));
    }

    /// Passes on a signal that we got.
    pub(crate) fn forward(&self, signal: Signal) {
        self.order(Order::Signal(signal.0));
    }

    /// Asks the command to end.
    pub(crate) fn terminate(&self) {
        self.order(Order::Signal(process::Signal::TERM));
    }

    /// Ends everything, stopped processes included.
    pub(crate) fn kill(&self) {
        self.order(Order::Kill);
    }

    /// After [`Event::Ended`] or [`Event::Killed`]: takes the terminal back, and answers how the command ended.
    pub(crate) fn bury(&mut self) -> io::Result<Exit> {
        self.take_terminal();
        self.channel = None;
        self.wake_watcher();
        self.watcher.wait()?;
        Ok(self.exit.unwrap_or(Exit::System))
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
        // Fails if the watcher is gone, which the next `event` tells; or if it was stopped and thousands of orders wait
        // for it: then the deadline that it knows is an earlier one, which does no harm.
        let _: io::Result<()> = channel.send(order);
        self.wake_watcher();
    }

    /// It may have been stopped: then it would never do what it is told, nor tell of the command's end.
    fn wake_watcher(&self) {
        let watcher = Pid::from_child(&self.watcher);
        // It is our child, and not buried.
        let _: rustix::io::Result<()> = process::kill_process(watcher, process::Signal::CONT);
    }

    /// The watcher is dead, and on Linux the leader of the command's group with it. Ends the rest: on Linux all of it,
    /// elsewhere the group.
    async fn end_unwatched(&mut self) -> io::Result<()> {
        self.channel = None;
        self.exit = Some(Exit::Signal(process::Signal::KILL.as_raw()));
        // It may only have closed its end. Its children are ours when it is buried, and not before.
        self.watcher.kill()?;
        self.watcher.wait()?;
        self.orphans.end().await;
        if let Some(group) = self.group {
            orphans::end_group(group).await;
        }
        self.take_terminal();
        Ok(())
    }
}

impl Drop for Process {
    /// Whatever went wrong: the command doesn't outlive the lock.
    fn drop(&mut self) {
        if self.channel.is_some() {
            let _: io::Result<Exit> = self.bury();
        }
    }
}

/// What a person at the terminal is told of a command that was stopped, and can't be continued from there.
const OUT_OF_REACH: &str = "the command is stopped, and the lock still held: from within this PID namespace lock can't give \
                            it the terminal, which it may want to read; Ctrl-C ends it";

/// If this is not a call by a person, but by another call of this program: does what that wants.
pub(crate) fn inner_call(mut args: impl Iterator<Item = OsString>) -> Option<Result<Exit, Failure>> {
    match args.next()?.to_str()? {
        watcher::WATCH => Some(watcher::watch(args)),
        exec::BECOME => Some(Err(exec::become_command(args))),
        _ => None,
    }
}

/// The number of a process that is an argument of an inner call.
fn number(arg: OsString) -> Option<Pid> {
    arg.to_str()?.parse().ok().and_then(Pid::from_raw)
}

/// This very program, also if its file has been replaced since: Linux keeps it under this name.
fn own_program() -> io::Result<PathBuf> {
    match cfg!(any(target_os = "linux", target_os = "android")) {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe(),
    }
}
