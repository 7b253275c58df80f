//! A simulation of the whole library but its sockets: the real core, with memory's drivers and servers, on clocks that
//! disagree and a network that loses, delays, doubles and reorders messages. One seed decides everything.
//!
//! [`play`] plays one history and [`check`]s it; [`play_many`] sums up. The command is
//! `cargo run --release -p lock-conformance --features sim -- sim --histories 100000`.

mod callers;
mod check;
mod clocks;
mod dice;
mod families;
mod faults;
mod history;
mod log;
mod network;
mod report;
mod timeline;

use std::time::Duration;

pub use check::{Invariant, Verdict, Violation, check};
pub use faults::{Fault, Kind};
pub use history::{FamilyName, History, play};
pub use log::{CallId, Entry, What, Why};
pub use network::Mishaps;
pub use report::{Report, family_of, play_many};

/// The lock that everybody wants.
const NAME: &str = "simulated";
/// For how long it is granted.
const TTL: Duration = Duration::from_millis(600);
