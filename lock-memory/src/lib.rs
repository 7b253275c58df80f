//! Locks in one process: for tests of your own code, and as the reference for a new backend.
//!
//! A [`Memory`] is a server. Each of its clients stands for what is a process elsewhere. Code that takes a
//! [`lock_core::Client`] can't tell the difference:
//!
//! ```
//! # mod onelock { pub use lock_core::*; pub use lock_memory as memory; }
//! use onelock::{ErrorKind, LossReason};
//! use onelock::memory::Memory;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lock_core::Result<()> {
//! let memory = Memory::new();
//! let (ours, theirs) = (memory.client().await?, memory.client().await?);
//!
//! // Another client holds the lock: does our code wait, or go away, as it should?
//! let guard = theirs.lock("report").build()?.acquire().await?;
//! assert!(ours.lock("report").build()?.try_acquire().await?.is_none());
//!
//! // The lock is lost in the middle of the work: does their code stop?
//! memory.expire("report");
//! assert!(guard.renew(onelock::DEFAULT_TTL).await.is_err());
//! assert_eq!(guard.lost().await, LossReason::Gone);
//!
//! // The server can't be reached: does our code say so?
//! memory.disconnect();
//! let lost = ours.lock("report").ttl(std::time::Duration::from_millis(300)).build()?;
//! assert!(matches!(lost.try_acquire().await.unwrap_err().kind(), ErrorKind::Unavailable { .. }));
//! memory.reconnect();
//! # Ok(()) }
//! ```
//!
//! # To add a backend
//!
//! There are three families of servers, and this crate has one of each: [`server::lease`] (compare-and-set with a lease
//! per lock: Redis, SQL, MongoDB) with its driver in [`lease`], [`server::queue`] (a queue per lock, kept by sessions:
//! etcd, ZooKeeper) with its driver in [`queue`], and [`server::register`] (values that are replaced if they have not
//! changed: NATS KV, object stores) with what the core's driver needs of it in [`register`]. Copy the one whose server is
//! like yours; your statements have to do what it asks of its server. [`wire`] is the interface between driver and
//! server, where a simulation puts a network.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod host;
pub mod lease;
mod memory;
pub mod queue;
pub mod register;
mod registry;
pub mod server;
mod session;
mod time;
pub mod wire;

pub use host::Counters;
pub(crate) use memory::{LONGEST_TTL, SHORTEST_TTL};
pub use memory::{Link, Memory};
pub use registry::{connect, named};
pub use time::{ServerClock, ServerTime};

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
