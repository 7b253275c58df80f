//! The watcher: a process between `lock` and the command, which ends the command in time even if `lock` can't.
//!
//! Its standard input is its end of the channel. It has a group of its own, so that what stops or ends `lock` from the
//! terminal doesn't reach it.

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::time::Duration;

use rustix::process::Pid;
use tokio::runtime::Builder;

use super::channel::{Channel, Order, Report, receive_with};
use super::deadline::Deadline;
use super::group::{Change, Group};
use super::number;
use super::signals::Signals;
use crate::exit::{Exit, Failure};

/// Its first argument.
pub(super) const WATCH: &str = "__watch";

/// A timer stands still while the machine sleeps: the clock is looked at this often.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// The arguments before those of the command. `group` is that of `lock`.
pub(super) fn call(group: Pid) -> [String; 2] {
    [WATCH.to_owned(), group.to_string()]
}

/// Starts the command when it is told to, and sees to its end.
pub(super) fn watch(mut args: impl Iterator<Item = OsString>) -> Result<Exit, Failure> {
    let group = number(args.next());
    let command: Vec<OsString> = args.collect();
    let (Some(group), false) = (group, command.is_empty()) else {
        return Err(Failure::new(Exit::Usage, format!("{WATCH} is for lock itself; see lock run --help")));
    };
    // One thread: it is the one whose end kills the command (see `exec`).
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let _swallowed = Signals::swallow()?;
        let Some((first, input)) = receive_with(stdin())? else { return Ok(Exit::Status(0)) };
        let Order::KillAt(deadline) = first else {
            return Err(Failure::new(Exit::Usage, "no deadline before the command"));
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

/// Why the command is brought to its end.
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
        let exit = self.group.end()?;
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
                // First, so that a watcher that has not run for a while knows of every renewal before it kills.
                order = self.channel.receive() => match order? {
                    Some(Order::KillAt(deadline)) => self.deadline = deadline,
                    Some(Order::Signal(signal)) => self.group.signal(signal),
                    Some(Order::Kill) | None => return Ok(Why::ToldTo),
                },
                () = reached(self.deadline) => return Ok(Why::Deadline),
                change = self.group.change() => match change? {
                    Change::Ended => return Ok(Why::ItEnded),
                    Change::Stopped => self.tell(Report::Stopped),
                },
            }
        }
    }

    /// If `lock` is gone, the next look at the channel tells.
    fn tell(&self, report: Report) {
        let _: io::Result<()> = self.channel.send(report);
    }
}

async fn reached(deadline: Deadline) {
    loop {
        let left = deadline.left();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_TIMER)).await;
    }
}
