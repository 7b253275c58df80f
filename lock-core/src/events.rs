//! What happens to locks, told once: `tracing` and `metrics` are derived from one event type, with the same names on
//! every backend. No metric is labelled with a lock's name. `docs/metrics.md` is the table.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::driver::Cause;
use crate::error::Error;
use crate::guard::Ending;
use crate::name::Name;
use crate::owner::Owner;
use crate::token::FencingToken;

/// Something that happened on a client.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A caller asks for a lock.
    Asked {
        /// Which.
        name: &'a Name,
    },
    /// It has it.
    Granted {
        /// Which.
        name: &'a Name,
        /// As whom.
        owner: Owner,
        /// With what.
        token: FencingToken,
        /// How long it took.
        waited: Duration,
    },
    /// It doesn't get it.
    NotGranted {
        /// Which.
        name: &'a Name,
        /// Why.
        why: Refusal,
        /// How long it took.
        waited: Duration,
    },
    /// A held lock was confirmed by the server.
    Renewed {
        /// Which.
        name: &'a Name,
        /// How long the call took.
        took: Duration,
    },
    /// A held lock is no longer held.
    Lost {
        /// Which.
        name: &'a Name,
        /// As whom it was held.
        owner: Owner,
        /// Why.
        cause: Cause,
        /// For how long it was held.
        held: Duration,
    },
    /// A lock that was held has been given up.
    Ended {
        /// Which.
        name: &'a Name,
        /// As whom it was held.
        owner: Owner,
        /// In time, or not.
        ending: Ending,
        /// For how long it was held.
        held: Duration,
    },
    /// The server did not do what it was asked. It is asked again where that makes sense.
    Trouble {
        /// For which lock.
        name: &'a Name,
        /// Which call: `attempt`, `listen`, `watch`, `renew`, `release`; or `claim`, which a panic of the driver ended.
        operation: &'static str,
        /// What it said.
        error: &'a Error,
    },
    /// Time jumped ahead: the machine was suspended, or this process did not run.
    Jumped {
        /// By how much.
        by: Duration,
    },
}

/// Why a caller doesn't get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else holds it.
    Busy,
    /// The caller went away, or its wait ran out.
    GivenUp,
    /// The server could not be asked, or refused.
    Error,
}

/// What is told of every event, at once and on the client's runtime: it must not block. A panic of it ends
/// nothing: it is told to `tracing`, the first time, and the observer of the next event.
pub type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Tells an event to `tracing`, to `metrics`, and to the client's observer.
pub(crate) struct Events {
    pub(crate) backend: &'static str,
    pub(crate) observer: Option<Observer>,
    /// Whether one who is told has panicked.
    panicked: AtomicBool,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

impl Events {
    pub(crate) fn new(backend: &'static str, observer: Option<Observer>) -> Events {
        Events { backend, observer, panicked: AtomicBool::new(false) }
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        self.to("tracing's subscriber", || self.trace(event));
        #[cfg(feature = "metrics")]
        self.to("the recorder of metrics", || self.count(event));
        if let Some(observer) = &self.observer {
            self.to("the observer", || observer(event));
        }
    }

    /// An observer may panic, and the claim goes on. That is said once.
    fn to(&self, whom: &str, tell: impl FnOnce()) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(tell)) else { return };
        if self.panicked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (backend, panic) = (self.backend, panic_message(&*panic));
        let say = || tracing::error!(backend, whom, panic, "who is told of events has panicked");
        // The subscriber is one of those who may.
        let _: std::thread::Result<()> = catch_unwind(AssertUnwindSafe(say));
    }

    fn trace(&self, event: &Event<'_>) {
        let backend = self.backend;
        match event {
            Event::Asked { name } => tracing::trace!(backend, %name, "lock asked for"),
            Event::Granted { name, owner, token, waited } => {
                tracing::debug!(backend, %name, %owner, %token, ?waited, "lock granted");
            }
            Event::NotGranted { name, why, waited } => {
                tracing::debug!(backend, %name, ?why, ?waited, "lock not granted");
            }
            Event::Renewed { name, took } => tracing::trace!(backend, %name, ?took, "lock renewed"),
            Event::Lost { name, owner, cause, held } => {
                tracing::warn!(backend, %name, %owner, %cause, ?held, "lock lost");
            }
            Event::Ended { name, owner, ending, held } => {
                tracing::debug!(backend, %name, %owner, ?ending, ?held, "lock given up");
            }
            Event::Trouble { name, operation, error } => {
                tracing::warn!(backend, %name, operation, %error, "lock server trouble");
            }
            Event::Jumped { by } => tracing::warn!(backend, ?by, "time jumped ahead"),
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

impl Refusal {
    /// One lower-case word: the label of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::Busy => "busy",
            Refusal::GivenUp => "given_up",
            Refusal::Error => "error",
        }
    }
}

/// What a panic said.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
}
