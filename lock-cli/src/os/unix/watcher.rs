//! The watcher: a process between `lock` and the command, which ends the command in time even if `lock` can't.
//!
//! Its standard input is its end of the channel. It has a process group of its own, so that signals from the terminal
//! which stop or end `lock` don't reach it.

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;

use rustix::process::Signal;
use tokio::runtime::Builder;

use super::channel::{Channel, Order, Report, receive_with};
use super::deadline::Deadline;
use super::group::{Change, Group};
use super::signals::Signals;
use super::terminal::LockGroup;
use crate::exit::{Exit, Failure};

/// The first argument of this inner call.
pub(super) const WATCH: &str = "__watch";

/// Returns the arguments before those of the command. `group` is the process group of `lock`.
pub(super) fn call(group: LockGroup) -> [String; 2] {
    [WATCH.to_owned(), group.to_string()]
}

/// Waits for the first order, starts the command, and ends it in time.
pub(super) fn watch(mut args: impl Iterator<Item = OsString>) -> Result<Exit, Failure> {
    let group = args.next().and_then(LockGroup::parse);
    let command: Vec<OsString> = args.collect();
    let (Some(group), false) = (group, command.is_empty()) else {
        return Err(Failure::new(
            Exit::Usage,
            format!("{WATCH} is an internal call of lock; see lock run --help"),
        ));
    };
    // One thread: when the thread that started the command ends, the command is killed (see `exec`).
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _swallowed = Signals::swallow()?;
        let Some((first, input)) = receive_with(stdin())? else { return Ok(Exit::Status(0)) };
        let Order::KillAt(deadline) = first else {
            return Err(Failure::new(Exit::Usage, "the first message to the watcher has no deadline"));
        };
        let channel = Channel::new(Socket::from(stdin().as_fd().try_clone_to_owned()?))?;
        if deadline.left().is_zero() {
            channel.send(Report::Killed)?;
            return Ok(Exit::Status(0));
        }
        let group = Group::start(&command, group, input)?;
        Watcher { channel, group, deadline }.run().await?;
        Ok(Exit::Status(0))
    })
}

struct Watcher {
    channel: Channel,
    group: Group,
    deadline: Deadline,
}

/// Why the watcher ends the command.
enum Why {
    ItEnded,
    ToldTo,
    Deadline,
}

impl Watcher {
    async fn run(&mut self) -> io::Result<()> {
        self.tell(Report::Started(self.group.id()));
        let why = self.wait().await;
        if !matches!(why, Ok(Why::ItEnded)) {
            self.group.kill();
        }
        let exit = self.group.end().await?;
        self.tell(match why? {
            Why::ItEnded | Why::ToldTo => Report::Ended(exit),
            Why::Deadline => Report::Killed,
        });
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<Why> {
        loop {
            tokio::select! {
                biased;
                // First: after a pause of the watcher, it must read every renewal before it kills.
                order = self.channel.receive() => match order? {
                    Some(Order::KillAt(deadline)) => self.deadline = deadline,
                    Some(Order::Signal(signal)) => self.signal(signal),
                    Some(Order::Kill) | None => return Ok(Why::ToldTo),
                },
                () = self.deadline.reached() => return Ok(Why::Deadline),
                change = self.group.change() => match change? {
                    Change::Ended => return Ok(Why::ItEnded),
                    Change::Stopped => self.tell(Report::Stopped),
                },
            }
        }
    }

    fn signal(&self, signal: Signal) {
        self.group.signal(signal);
        // A stopped process gets the signal only when it continues (signal(7)). systemd.kill(5) does the same.
        if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal) {
            self.group.signal(Signal::CONT);
        }
    }

    /// Sends a report. If `lock` is gone, the next read of the channel shows it.
    fn tell(&self, report: Report) {
        let _: io::Result<()> = self.channel.send(report);
    }
}
