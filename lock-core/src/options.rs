//! The options of a client.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::events::{Event, Observer};
use crate::owner::Label;
use crate::random::Random;

/// The options of a client. Backends take it in addition to their own options.
///
/// ```
/// # use lock_core as onelock;
/// use std::time::Duration;
///
/// use onelock::Options;
///
/// let options = Options::default()
///     .label("billing@web-3")
///     .patience(Duration::from_secs(2))
///     .connect_wait(Duration::from_secs(30)) // the server may start after this program
///     .dedicated(); // a thread of its own, beside code that blocks
/// ```
#[derive(Clone)]
pub struct Options {
    /// `None`: the operating system's.
    pub(crate) clock: Option<Clock>,
    pub(crate) random: Random,
    pub(crate) label: Option<Label>,
    pub(crate) patience: Option<Duration>,
    pub(crate) connect_wait: Option<Duration>,
    pub(crate) observer: Option<Observer>,
    pub(crate) runs_on: RunsOn,
}

/// The runtime of a client's claims and connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunsOn {
    /// On the runtime that opens the client.
    CallersRuntime,
    /// On a thread of the client's own.
    OwnThread,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clock: None,
            random: Random::system(),
            label: None,
            patience: None,
            connect_wait: None,
            observer: None,
            runs_on: RunsOn::CallersRuntime,
        }
    }
}

impl Options {
    /// Gives the client a thread with a runtime of its own. Leases then survive a stalled application executor.
    ///
    /// When the last handle of the client (a client, lock or guard) is dropped, the drop waits for pending releases,
    /// for a second at most.
    #[must_use]
    pub fn dedicated(mut self) -> Self {
        self.runs_on = RunsOn::OwnThread;
        self
    }

    /// Sets the text that people see for this client's holders. By default `user@host pid 4711 program`.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(Label::new(label));
        self
    }

    /// Sets how long one request may take; also `?patience=` in a URL. By default a third of the lock's ttl, but at
    /// least 100 ms and at most 5 s.
    ///
    /// It must be at least 1 ms, otherwise opening the client is `Invalid`.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Sets for how long opening the client tries again while the server can't be reached; also `?connect_wait=` in a URL.
    /// By default it tries once.
    ///
    /// It is meant for a program that starts before its server. An error that does not pass by itself, such as a wrong
    /// password, is returned at once. The last try may end up to one patience after this time. A client that is opened by
    /// `?lazy=true` does not wait.
    #[must_use]
    pub fn connect_wait(mut self, wait: Duration) -> Self {
        self.connect_wait = Some(wait);
        self
    }

    /// Calls `observer` with every event, at once and on the client's runtime: `observer` must not block.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Sets another clock, for tests and simulations. By default [`Clock::system`]; for a server in memory, the clock of
    /// that server.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the clock unless one is set already. Meant for a backend whose server has a clock in this process.
    #[must_use]
    pub fn clock_unless_set(mut self, clock: &Clock) -> Self {
        self.clock.get_or_insert_with(|| clock.clone());
        self
    }

    pub(crate) fn the_clock(&self) -> Clock {
        self.clock.clone().unwrap_or_else(Clock::system)
    }

    /// Sets another source of randomness, for simulations.
    #[must_use]
    pub fn random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Options { label, patience, connect_wait, runs_on, .. } = self;
        f.debug_struct("Options")
            .field("label", label)
            .field("patience", patience)
            .field("connect_wait", connect_wait)
            .field("runs_on", runs_on)
            .finish_non_exhaustive()
    }
}
