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
mod ids;
mod interference;
mod log;
mod majority;
mod named;
mod network;
mod plan;
mod report;
mod rules;
mod server;
mod setting;
mod site;
mod stories;
mod story_results;
mod tally;
mod timeline;
mod wakes;
mod world;

pub use check::{Invariant, Verdict, Violation, check};
pub use faults::{Fault, Kind, Loss};
pub use history::{History, play};
pub use ids::{CallId, LockId};
pub use log::{Claim, Entry, Fate, Parting, Terms, Wait, What, Why};
#[doc(hidden)]
pub use majority::node as node_model;
pub use report::{Report, family_of, play_many};
pub use rules::{FamilyName, Rules, WakesBy};
pub use stories::{STORIES, Story};
pub use story_results::{StoryResults, play_story};
pub use tally::{Occurrence, Tally};
