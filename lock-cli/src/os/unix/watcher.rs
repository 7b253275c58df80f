//! The watcher: a process between `lock` and the command, which ends the command in time even if `lock` can't.
//!
//! Its standard input is its end of the channel. It has a process group of its own, so that signals from the terminal
//! which stop or end `lock` don't reach it.

use std::ffi::OsString;
use std::io::{self, stdin};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as Socket;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::channel::{CHANNEL, Channel, Order, Report, receive_with};
use super::deadline::Deadline;
use super::descendants::Outcome;
use super::detach::close_outputs;
use super::group::{Change, Group};
use super::signals::Signals;
use super::terminal::LockGroup;
use crate::exit::{About, Exit, Failure};
use crate::os::{Daemons, Survivor};
use crate::{on_a_runtime, print};

/// The first argument of this inner call.
pub(super) const WATCH: &str = "__watch";

/// The second argument: the fate of daemons.
const KILLED: &str = "kill-daemons";
const KEPT: &str = "keep-daemons";

/// Returns the arguments before those of the command. `group` is the process group of `lock`.
pub(super) fn call(group: LockGroup, daemons: Daemons) -> [String; 3] {
    let daemons = match daemons {
        Daemons::Killed => KILLED,
        Daemons::Kept => KEPT,
    };
    [WATCH.to_owned(), daemons.to_owned(), group.to_string()]
}

/// Waits for the first order, starts the command, and ends it in time.
pub(super) fn watch(mut args: impl Iterator<Item = OsString>) -> Result<Exit, Failure> {
    let daemons = args.next().and_then(|word| match word.to_str()? {
        KILLED => Some(Daemons::Killed),
        KEPT => Some(Daemons::Kept),
        _ => None,
    });
    let group = args.next().and_then(LockGroup::parse);
    let command: Vec<OsString> = args.collect();
    let (Some(daemons), Some(group), false) = (daemons, group, command.is_empty()) else {
        return Err(Failure::new(
            Exit::Usage,
            format!("{WATCH} is an internal call of lock; see lock run --help"),
        ));
    };
    // One thread: when the thread that started the command ends, the command is killed (see `exec`).
    on_a_runtime(async {
        let _swallowed = Signals::swallow()?;
        let Some((first, input)) = receive_with(stdin()).about(CHANNEL)? else {
            return Ok(Exit::Status(0));
        };
        let Order::KillAt(deadline) = first else {
            return Err(Failure::new(Exit::Usage, "the first message to the watcher has no deadline"));
        };
        let socket = stdin().as_fd().try_clone_to_owned().about(CHANNEL)?;
        let channel = Channel::new(Socket::from(socket))?;
        if deadline.left().is_zero() {
            channel.send(Report::Killed).about(CHANNEL)?;
            return Ok(Exit::Status(0));
        }
        let group = Group::start(&command, group, input)?;
        Watcher { channel, group, daemons, deadline, reserve: Reserve::default() }.run().await?;
        Ok(Exit::Status(0))
    })
}

struct Watcher {
    channel: Channel,
    group: Group,
    daemons: Daemons,
    deadline: Deadline,
    reserve: Reserve,
}

/// Why the watcher ends the command.
enum Why {
    ItEnded,
    ToldTo,
    Deadline,
    /// `lock` has ended.
    Alone,
}

impl Watcher {
    async fn run(&mut self) -> io::Result<()> {
        self.tell(Report::Started(self.group.id()));
        let why = self.wait().await;
        if let Ok(Why::ItEnded) = why {
            if self.daemons == Daemons::Kept {
                let exit = self.group.exit();
                self.tell(Report::LeaderEnded(exit));
                if self.may_let_go().await {
                    return Ok(());
                }
            } else if self.group.has_exited()
                && let Some((count, found)) = self.group.left_behind()
            {
                self.tell(Report::LeftBehind(count, found));
            }
        }
        // At its deadline the command has no time left.
        let certain_until = match why {
            Ok(Why::Deadline) => Deadline::after(|| Duration::ZERO),
            _ => self.deadline,
        };
        self.group.begin_to_end(certain_until);
        self.end(matches!(why, Ok(Why::Alone))).await;
        let ended = Report::Ended(self.group.exit());
        self.tell(if let Why::Deadline = why? { Report::Killed } else { ended });
        Ok(())
    }

    async fn wait(&mut self) -> io::Result<Why> {
        loop {
            let kill_at = self.deadline.earlier(self.reserve.time);
            tokio::select! {
                biased;
                // First: after a pause of the watcher, it must read every renewal before it kills.
                order = self.channel.receive() => match order? {
                    Some(Order::KillAt(deadline)) => {
                        self.deadline = deadline;
                        self.reserve.measure(&self.group, deadline);
                    }
                    Some(Order::Signal(signal)) => self.signal(signal),
                    Some(Order::Kill | Order::LetGo) => return Ok(Why::ToldTo),
                    None => return Ok(Why::Alone),
                },
                () = kill_at.reached() => return Ok(Why::Deadline),
                change = self.group.change() => match change? {
                    Change::Ended => return Ok(Why::ItEnded),
                    Change::Stopped => self.tell(Report::Stopped),
                },
            }
        }
    }

    /// Waits for the order that says what becomes of the daemons. The deadline does not count: the command has ended in
    /// time, and if `lock` is killed, the daemons are.
    async fn may_let_go(&mut self) -> bool {
        loop {
            match self.channel.receive().await {
                Ok(Some(Order::LetGo)) => return true,
                Ok(Some(Order::Kill) | None) | Err(_) => return false,
                Ok(Some(Order::KillAt(_) | Order::Signal(_))) => {}
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

    /// Returns when nothing of the command is left. Tells of a process that goes on: `lock`, or if that has ended, the
    /// reader of its stderr.
    async fn end(&mut self, mut is_alone: bool) {
        let mut survivor = None;
        loop {
            tokio::select! {
                biased;
                order = self.channel.receive(), if !is_alone => match order {
                    Ok(Some(Order::LetGo)) => {
                        is_alone = true;
                        close_outputs();
                    }
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => {
                        is_alone = true;
                        if let Some(survivor) = survivor {
                            say_alone(survivor);
                        }
                    }
                },
                outcome = self.group.end() => match outcome {
                    Outcome::NothingLeft => return,
                    Outcome::GoesOn(found) if is_alone => say_alone(found),
                    Outcome::GoesOn(found) => {
                        survivor = Some(found);
                        self.tell(Report::GoesOn(found));
                    }
                },
            }
        }
    }

    /// Sends a report. If `lock` is gone, the next read of the channel shows it.
    fn tell(&self, report: Report) {
        let _: io::Result<()> = self.channel.send(report);
    }
}

/// Says what `lock` can't say any more. From then on no reader has to wait for this process: it lives as long as the
/// other one does.
fn say_alone(survivor: Survivor) {
    print::note(format!(
        "lock was killed, and {survivor}; when the lease ends, another client can have the lock"
    ));
    print::finish();
    close_outputs();
}

/// The time between the kill and the deadline of the command: it takes time to find all of its processes.
#[derive(Debug, Default)]
struct Reserve {
    time: Duration,
    /// When the time was measured, and how long that took.
    measured: Option<(Instant, Duration)>,
}

impl Reserve {
    /// To find them, to signal each, and once more what was started meanwhile.
    const LOOKS: u32 = 4;
    /// Less than the lock's own margins leave of a lease that is renewed in time.
    const MOST: u32 = 3;

    /// Measures a look at the whole family of processes, for no more than 1 % of the time.
    fn measure(&mut self, group: &Group, deadline: Deadline) {
        if self.measured.is_some_and(|(at, cost)| at.elapsed() < cost * 100) {
            return;
        }
        let cost = group.cost_of_a_look();
        self.measured = Some((Instant::now(), cost));
        self.time = (cost * Self::LOOKS).min(deadline.left() / Self::MOST);
    }
}
