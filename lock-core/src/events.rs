//! The events of locks, reported once: `tracing` and `metrics` are derived from one event type, with the same names on
//! every backend. No metric has a lock's name as a label. `docs/metrics.md` has the table.

mod outage;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::outage::{News, Outage};
use crate::clock::Clock;
use crate::ending::{Ending, LossReason};
use crate::error::Error;
use crate::name::Name;
use crate::owner::Owner;
use crate::token::FencingToken;

/// An event on a client.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Event, Options};
///
/// let options = Options::default().observer(|event| match event {
///     Event::Lost { name, cause, .. } => eprintln!("{name} was lost: {cause}"),
///     Event::Trouble { name, error, .. } => eprintln!("{name}: {error}"),
///     _ => {}
/// });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A caller asks for a lock.
    Asked {
        /// The lock's name.
        name: &'a Name,
    },
    /// The caller has got the lock.
    Granted {
        /// The lock's name.
        name: &'a Name,
        /// The owner to which it was granted.
        owner: Owner,
        /// The fencing token of the grant.
        token: FencingToken,
        /// The duration of the wait.
        waited: Duration,
    },
    /// The caller does not get the lock.
    NotGranted {
        /// The lock's name.
        name: &'a Name,
        /// The reason.
        why: Refusal,
        /// The duration of the wait.
        waited: Duration,
    },
    /// The server has confirmed a held lock.
    Renewed {
        /// The lock's name.
        name: &'a Name,
        /// The duration of the call.
        took: Duration,
    },
    /// A held lock was lost.
    Lost {
        /// The lock's name.
        name: &'a Name,
        /// The owner that held it.
        owner: Owner,
        /// The reason.
        cause: LossReason,
        /// For how long it was held.
        held: Duration,
    },
    /// A lock that was held has been given up.
    Ended {
        /// The lock's name.
        name: &'a Name,
        /// The owner that held it.
        owner: Owner,
        /// The release's answer: in time, or late.
        ending: Ending,
        /// For how long it was held.
        held: Duration,
    },
    /// The server did not do what it was asked. The request is repeated where that makes sense.
    Trouble {
        /// The lock's name.
        name: &'a Name,
        /// The call: `attempt`, `listen`, `watch`, `renew`, `release`; or `claim`, if a panic of the driver ended it.
        operation: &'static str,
        /// The error of the call.
        error: &'a Error,
    },
    /// Time jumped ahead: the machine was suspended, this process did not run, or code that blocks its thread kept the
    /// client's runtime from running. A [dedicated](crate::Options::dedicated) client goes on beside such code.
    Jumped {
        /// By how much.
        by: Duration,
    },
}

/// The reason why a caller does not get a lock.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Event, Options, Refusal};
///
/// let options = Options::default().observer(|event| {
///     if let Event::NotGranted { name, why: Refusal::Busy, waited } = event {
///         eprintln!("{name} was held by another owner for {waited:?}");
///     }
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Another owner holds it.
    Busy,
    /// The caller went away, or its wait ran out.
    GivenUp,
    /// The server could not be asked, or refused.
    Error,
}

/// A function that is called with every event, at once and on the client's runtime: it must not block.
///
/// If it panics, nothing else ends. The first panic is reported to `tracing`, and the observer gets the next event.
///
/// ```
/// # use lock_core as onelock;
/// use std::sync::Arc;
///
/// use onelock::Observer;
///
/// let observer: Observer = Arc::new(|event| println!("{event:?}"));
/// ```
pub type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Reports an event to `tracing`, to `metrics`, and to the client's observer.
pub(crate) struct Events {
    pub(crate) backend: &'static str,
    pub(crate) observer: Option<Observer>,
    /// A receiver of events has panicked.
    panicked: AtomicBool,
    /// The trouble that was logged of the connection for requests.
    requests: Outage,
    /// The trouble that was logged of the connection for wake-ups.
    wakes: Outage,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    pub(crate) fn new(backend: &'static str, observer: Option<Observer>, clock: &Clock) -> Events {
        let (requests, wakes) = (Outage::new(clock.clone()), Outage::new(clock.clone()));
        Events { backend, observer, panicked: AtomicBool::new(false), requests, wakes }
    }

    /// Notes that the server has taken a claim's wish to be woken.
    pub(crate) fn listens(&self) {
        if self.wakes.ends() {
            self.to("tracing's subscriber", || {
                tracing::info!(backend = self.backend, "lock server announces changes again");
            });
        }
    }

    pub(crate) fn report(&self, event: &Event<'_>) {
        self.to("tracing's subscriber", || self.trace(event));
        #[cfg(feature = "metrics")]
        self.to("the recorder of metrics", || self.count(event));
        if let Some(observer) = &self.observer {
            self.to("the observer", || observer(event));
        }
    }

    /// Calls one receiver of events. If it panics, the claim goes on, and the first panic is reported.
    fn to(&self, whom: &str, tell: impl FnOnce()) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(tell)) else { return };
        if self.panicked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (backend, panic) = (self.backend, panic_message(&*panic));
        let say = || tracing::error!(backend, whom, panic, "a receiver of events has panicked");
        // The subscriber may be the receiver that panics.
        let _: std::thread::Result<()> = catch_unwind(AssertUnwindSafe(say));
    }

    fn trace(&self, event: &Event<'_>) {
        let backend = self.backend;
        match event {
            Event::Asked { name } => tracing::trace!(backend, %name, "lock asked for"),
            Event::Granted { name, owner, token, waited } => {
                self.trace_answer();
                tracing::debug!(backend, %name, %owner, %token, ?waited, "lock granted");
            }
            Event::NotGranted { name, why, waited } => {
                tracing::debug!(backend, %name, ?why, ?waited, "lock not granted");
            }
            Event::Renewed { name, took } => {
                self.trace_answer();
                tracing::trace!(backend, %name, ?took, "lock renewed");
            }
            Event::Lost { name, owner, cause, held } => {
                tracing::warn!(backend, %name, %owner, %cause, ?held, "lock lost");
            }
            Event::Ended { name, owner, ending, held } => {
                tracing::debug!(backend, %name, %owner, ?ending, ?held, "lock given up");
            }
            Event::Trouble { name, operation, error } => match self.outage(operation).goes_on(error.kind()) {
                News::First => tracing::warn!(backend, %name, operation, %error, "lock server trouble"),
                News::Again => tracing::debug!(backend, %name, operation, %error, "lock server trouble"),
            },
            Event::Jumped { by } => tracing::warn!(backend, ?by, because = JUMPED, "time jumped ahead"),
        }
    }

    /// Says that the server answers again, if it didn't.
    fn trace_answer(&self) {
        if self.requests.ends() {
            tracing::info!(backend = self.backend, "lock server answers again");
        }
    }

    /// Returns what is known of the connection that this call uses.
    fn outage(&self, operation: &str) -> &Outage {
        match operation {
            "listen" | "watch" => &self.wakes,
            _ => &self.requests,
        }
    }

    #[cfg(feature = "metrics")]
    fn count(&self, event: &Event<'_>) {
        use metrics::{counter, gauge, histogram};
        let backend = self.backend;
        match *event {
            Event::Asked { .. } => gauge!("lock_waiting", "backend" => backend).increment(1),
            Event::Granted { waited, .. } => {
                gauge!("lock_waiting", "backend" => backend).decrement(1);
                gauge!("lock_held", "backend" => backend).increment(1);
                counter!("lock_acquisitions_total", "backend" => backend, "outcome" => "granted")
                    .increment(1);
                histogram!("lock_wait_seconds", "backend" => backend).record(waited);
            }
            Event::NotGranted { why, waited, .. } => {
                gauge!("lock_waiting", "backend" => backend).decrement(1);
                counter!("lock_acquisitions_total", "backend" => backend, "outcome" => why.as_str())
                    .increment(1);
                histogram!("lock_wait_seconds", "backend" => backend).record(waited);
            }
            Event::Renewed { took, .. } => {
                counter!("lock_renewals_total", "backend" => backend).increment(1);
                histogram!("lock_renewal_seconds", "backend" => backend).record(took);
            }
            Event::Lost { cause, .. } => {
                counter!("lock_lost_total", "backend" => backend, "cause" => cause.as_str()).increment(1);
            }
            Event::Ended { ending, held, .. } => {
                gauge!("lock_held", "backend" => backend).decrement(1);
                counter!("lock_releases_total", "backend" => backend, "ending" => ending.as_str())
                    .increment(1);
                histogram!("lock_hold_seconds", "backend" => backend).record(held);
            }
            Event::Trouble { operation, .. } => {
                counter!("lock_errors_total", "backend" => backend, "operation" => operation).increment(1);
            }
            Event::Jumped { .. } => counter!("lock_clock_jumps_total", "backend" => backend).increment(1),
        }
    }
}

/// The possible causes of a jump, and the remedy.
const JUMPED: &str = "the machine was suspended, the process was stopped, or code that blocks its thread kept the runtime \
                      from running; a client with a thread of its own (Options::dedicated) goes on renewing beside such \
                      code";

impl Refusal {
    /// Returns one lower-case word: the value of the metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::Busy => "busy",
            Refusal::GivenUp => "given_up",
            Refusal::Error => "error",
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message").to_owned()
}
