//! The suite that every backend must pass, ours and those of other people. `docs/add-a-backend.md` shows how to run it.
//!
//! A backend's `tests/conformance.rs` has a [`Harness`] of about a page and calls [`run`]. The cases are selected by
//! what the backend's `Info` promises and by what the harness can do to its server: each of its abilities is a trait in
//! [`harness`]. A case that can't run is reported as *not run*.
//!
//! The suite starts no server. For servers that are programs or containers on this machine, `lock-test-servers` has a
//! harness.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod bounds;
mod case;
mod cases;
pub mod claims;
pub mod contention;
pub mod dice;
pub mod environment;
mod failure;
pub mod harness;
pub mod holders;
mod lateness;
mod model;
pub mod paging;
mod part;
pub mod patience;
pub mod proxy;
pub mod record;
pub mod refusal;
pub mod rules;
mod runner;
mod runtime;
mod selection;
mod setting;
#[cfg(unix)]
mod signals;
mod suspendable;
pub mod timing;
mod verdict;

pub use harness::{Abilities, Ability, Counters, Data, Facts, Harness, Missing, Step};
pub use runner::{CaseOutcome, failed, not_run, run, run_case};
pub use setting::is_full_run;
pub use verdict::Verdict;
