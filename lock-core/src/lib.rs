//! Acquires, renews, releases and fences distributed locks: the contract with the backends, and all code that does not
//! depend on a server.
//!
//! A [`Client`] is a connection to one lock server. [`Client::lock`] builds a [`Lock`], a name and its terms.
//! [`Lock::acquire`] waits for the lock and returns a [`Guard`]. The lock is renewed in the background while the guard
//! lives, and released when the guard is dropped.
//!
//! This page has what users of locks need. Backends implement [`driver::Driver`] and [`driver::Claim`]; [`toolkit`] has tools
//! for that. What is promised is written in
//! [the semantics](https://github.com/onelock/onelock/blob/main/docs/semantics.md).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquisition;
mod backoff;
mod client;
mod clock;
pub mod driver;
mod ending;
mod entry;
mod error;
mod events;
mod fence;
mod guard;
mod human_duration;
mod local_queue;
mod lock;
mod multi;
mod name;
mod one_line;
mod opening;
mod options;
mod os;
mod owner;
mod period;
mod periodic;
mod process;
mod random;
mod reentrant;
mod runtime;
mod token;
pub mod toolkit;
#[cfg(test)]
mod wakes;

// The last one, so that its calls are the last ones on each type's page.
mod blocking;

pub use blocking::blocking_open;
pub use client::Client;
pub use clock::{Clock, Instant};
pub use driver::{Fair, Fencing, Finding, Info, Inspection, Lease, Level, Lists, Revoked, Wakes, When};
pub use ending::{Completion, Ending, LossReason};
pub use entry::Entry;
pub use error::{Effect, Error, ErrorKind, Result};
pub use events::{Event, Observer, Refusal};
pub use fence::{Fence, Stale};
pub use guard::Guard;
pub use lock::builder::LockBuilder;
pub use lock::{DEFAULT_TTL, Lock};
pub use multi::{MultiGuard, MultiLock};
pub use name::{MAX_NAME, MAX_PREFIX, Name};
pub use options::Options;
pub use owner::{Label, MAX_LABEL, Owner, OwnerBytes};
pub use period::Period;
pub use periodic::{PeriodicGuard, PeriodicLock};
pub use random::Random;
pub use reentrant::Reentrant;
pub use token::FencingToken;
pub use toolkit::parse_duration;

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
