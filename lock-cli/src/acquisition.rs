//! From the server's URL to the grant: connects, waits for the lock, and tells the user of the wait.

pub(crate) mod held;
mod notice;
mod reach;

use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use onelock::{Client, Clock, ErrorKind, Guard, Instant, Lock, Name, Options};

pub(crate) use self::notice::Notice;
use crate::args::{Ask, Waiting};
use crate::exit::{Exit, Failure};

/// The time that the last requests to the server may take. What is left on the server then ends with its ttl.
pub(crate) const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// The time limit of the question for the holder's name after a failed acquisition.
const HOLDER_LOOK: Duration = Duration::from_secs(1);

/// A lock or locks that a call can acquire.
pub(crate) trait Acquire {
    /// The hold after the grant.
    type Hold;

    fn lock(&self) -> &Lock;

    async fn acquire(&self) -> onelock::Result<Self::Hold>;

    async fn try_acquire(&self) -> onelock::Result<Option<Self::Hold>>;
}

/// One call's wait for the server and the lock.
#[derive(Debug)]
pub(crate) struct Acquisition<'a> {
    name: &'a Name,
    waiting: Waiting,
    notice: Notice,
    conflict_exit_code: u8,
    clock: Clock,
    /// When the wait is over.
    give_up: Option<Instant>,
}

impl<'a> Acquisition<'a> {
    /// Starts the wait: its time counts from now.
    pub(crate) fn begin(name: &'a Name, ask: &Ask, notice: Notice) -> Acquisition<'a> {
        let (waiting, conflict_exit_code) = (ask.waiting(), ask.conflict_exit_code);
        let clock = Clock::system();
        let give_up = match waiting {
            Waiting::AtMost(wait) => Some(clock.now() + wait),
            Waiting::ForEver | Waiting::No => None,
        };
        Acquisition { name, waiting, notice, conflict_exit_code, clock, give_up }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Opens a client of the server: with one try, or with tries until the wait is over.
    pub(crate) async fn connect(&self, url: &str, options: Options) -> Result<Client, Failure> {
        let options = options.clock(self.clock.clone());
        reach::reach(url, &options, self.give_up, &self.clock, &self.notice).await
    }

    /// Returns what is left of the wait; `None` if it has no end.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.give_up.map(|at| at.since(self.clock.now()))
    }

    /// Acquires what is asked for. Its lock has [`left`](Self::left) as its wait.
    pub(crate) async fn acquire<A: Acquire>(&self, asked: &A, server: &str) -> Result<A::Hold, Failure> {
        let lock = asked.lock();
        let hold = match self.waiting {
            Waiting::No => asked.try_acquire().await?,
            Waiting::AtMost(_) | Waiting::ForEver => {
                match self.notice.while_waiting(asked.acquire(), lock, server, &self.clock).await {
                    Err(e) if e.kind() == ErrorKind::Timeout => None,
                    outcome => Some(outcome?),
                }
            }
        };
        match hold {
            Some(hold) => Ok(hold),
            None => Err(self.not_acquired(lock).await),
        }
    }

    /// The failure if the lock was not acquired. Names the holder, if the lock is still held.
    async fn not_acquired(&self, lock: &Lock) -> Failure {
        let look = self.clock.timeout(HOLDER_LOOK, lock.inspect()).await;
        let holder = look.and_then(Result::ok).and_then(|inspection| inspection.holder);
        let holder = holder
            .map_or_else(|| "held by another client a moment ago".to_owned(), |holder| holder.to_string());
        let within = match self.waiting {
            Waiting::AtMost(wait) => format!(" within {}", HumanDuration(wait)),
            Waiting::ForEver | Waiting::No => String::new(),
        };
        Failure::new(
            Exit::NotAcquired(self.conflict_exit_code),
            format!("{:?} not acquired{within}: {holder}", self.name),
        )
    }
}

impl Acquire for Lock {
    type Hold = Guard;

    fn lock(&self) -> &Lock {
        self
    }

    async fn acquire(&self) -> onelock::Result<Guard> {
        Lock::acquire(self).await
    }

    async fn try_acquire(&self) -> onelock::Result<Option<Guard>> {
        Lock::try_acquire(self).await
    }
}

/// Returns the server's name for messages.
pub(crate) fn server(client: &Client) -> String {
    let info = client.info();
    format!("{} {}", info.backend, info.server).trim_end().to_owned()
}
