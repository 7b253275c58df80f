//! A simulation of the whole library except its sockets. The real core runs with lock-memory's drivers and servers, or
//! with lock-redlock's protocol, on clocks that disagree and on a network that loses, delays, doubles and reorders
//! messages. One seed determines the whole run.
//!
//! [`play`] plays one history (one simulated run) and checks it with [`check()`]; [`play_many`] plays many and sums up
//! the results. The command is
//! `cargo run --release -p lock-simulation -- sim --histories 100000`.

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
pub use stories::{STORIES, Story, StoryResults, play_story};
pub use tally::{Occurrence, Tally};

/// How many client processes run at any time.
const CLIENTS: usize = 4;
/// How many machines there are: one for each process, one for each process that replaces a killed one, and then one for
/// each server.
const MACHINES: usize = SERVER + MOST_SERVERS;
/// The machine of the first server.
const SERVER: usize = 2 * CLIENTS;
/// How many servers there are at most, in the family in which a majority of several servers decides.
const MOST_SERVERS: usize = 5;
/// The names of the locks. A history uses at least the first one.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// The ttl that most callers ask for; the durations of faults are derived from it. Some callers ask for a shorter ttl,
/// some for a longer one.
const TTL: Duration = Duration::from_millis(600);
/// The longest ttl that a caller asks for.
const LONGEST_TTL: Duration = Duration::from_secs(1);
