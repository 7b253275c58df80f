//! The suite that every backend must pass, ours and those of other people. `docs/add-a-backend.md` shows how to run it.
//!
//! A backend's `tests/conformance.rs` has a [`Harness`] of about a page and calls [`run`]. The cases are selected by
//! what the backend's `Info` promises and by what the harness can do to its server. A case that can't run is reported
//! as *not run*.

#[cfg(feature = "servers")]
mod backend;
mod bounds;
mod cases;
pub mod claims;
pub mod contention;
mod dice;
mod failure;
mod harness;
#[cfg(feature = "servers")]
pub mod interop;
mod judging;
mod machine;
mod model;
#[cfg(feature = "servers")]
mod part;
pub mod patience;
mod promised;
pub mod proxy;
#[cfg(feature = "servers")]
pub mod rules;
mod runner;
mod selection;
#[cfg(feature = "servers")]
pub mod servers;
mod setting;
#[cfg(all(unix, feature = "servers"))]
mod signals;
#[cfg(feature = "sim")]
pub mod sim;
mod suspendable;
pub mod timing;
mod turn;

#[cfg(feature = "servers")]
pub use backend::{Backend, run_on_server};
pub use harness::{Counters, Data, Harness, Need, OwnServer, Step};
pub use runner::{Verdict, failed, not_run, run};

/// Checks that the page for authors of a backend compiles as it stands, and that its backend passes the suite.
#[cfg(doctest)]
#[doc = include_str!("../../docs/add-a-backend.md")]
struct AddABackend;
