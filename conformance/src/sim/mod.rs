//! A simulation of the whole library but its sockets: the real core, with memory's drivers and servers or lock-redlock's
//! protocol, on clocks that disagree and a network that loses, delays, doubles and reorders messages. One seed decides
//! everything.
//!
//! [`play`] plays one history and [`check()`]s it; [`play_many`] sums up. The command is
//! `cargo run --release -p lock-conformance --features sim -- sim --histories 100000`.

mod callers;
mod check;
mod clocks;
mod cut;
mod dice;
mod families;
mod faults;
mod history;
mod interference;
mod log;
mod majority;
mod network;
mod plan;
mod report;
mod server;
mod site;
mod stories;
mod tally;
mod timeline;
mod wakes;

use std::time::Duration;

pub use check::{Invariant, Verdict, Violation, check};
pub use faults::{Fault, Kind, Loss};
pub use history::{FamilyName, History, play};
pub use log::{CallId, Entry, Fate, LockId, Parting, Rules, Terms, Wait, WakesBy, What, Why};
#[doc(hidden)]
pub use majority::node as node_model;
pub use report::{Report, family_of, play_many};
pub use stories::{STORIES, Story, Telling, tell};
pub use tally::{Occurrence, Tally};

/// Processes, at any time.
const CLIENTS: usize = 4;
/// One for each process, one for each that takes the place of one that was killed, and the servers', which are the last.
const MACHINES: usize = SERVER + MOST_SERVERS;
/// The first server's.
const SERVER: usize = 2 * CLIENTS;
/// A majority decides of so many, in the family that has several.
const MOST_SERVERS: usize = 5;
/// The locks of a history, of which it has one at least.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// For how long one is granted, and what all faults are measured by. Some ask for less, some for more.
const TTL: Duration = Duration::from_millis(600);
/// For no longer than this.
const LONGEST_TTL: Duration = Duration::from_secs(1);
