//! Real servers for the suite and the benchmarks, and real processes that hold locks on them.
//!
//! A server comes from the first of these that there is:
//!
//! 1. a URL in the environment (`LOCK_TEST_REDIS=redis://…`): somebody else's server, which is never hurt;
//! 2. a program on the `PATH` (`redis-server`, `valkey-server`), started in a temporary folder on a free loopback port;
//! 3. for some, a program of another system in a folder, started likewise under chroot.
//!
//! What is not there is an [`Absence`]: cases that need it are *not run*, unless `LOCK_TEST_REQUIRE=redis,…` names
//! it: then they fail. Only an [`Owned`] server, one that was started here, can be killed, stopped and paused, so a case
//! that needs this takes an `Owned`.
//!
//! Calls block, for a fraction of a second as a rule; asynchronous cases that need their thread meanwhile call them in
//! `spawn_blocking`. Nothing outlives the process that started it, however that ends (on Unix; elsewhere nothing is
//! started at all, and servers come from URLs).
//!
//! A further product is one file with a [`Product`], and one entry in [`catalogue`].

pub mod catalogue;
#[cfg(feature = "certificates")]
mod certificates;
pub mod clock;
mod executable;
#[cfg(unix)]
mod family;
#[cfg(not(unix))]
#[path = "family_elsewhere.rs"]
mod family;
mod folder;
mod holder;
#[cfg(unix)]
mod kin;
mod mongodb;
#[cfg(feature = "servers-sql")]
mod mysql;
mod owned;
#[cfg(feature = "servers-sql")]
mod pgbouncer;
#[cfg(feature = "servers-sql")]
mod postgres;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "process_elsewhere.rs"]
mod process;
mod product;
pub mod record;
mod redis;
mod requirement;
#[cfg(feature = "servers-sql")]
mod sql;
mod system;
#[cfg(feature = "servers-sql")]
mod template;
mod user;

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "certificates")]
pub use certificates::{Certificate, Root};
pub use executable::{Account, Executable};
pub use holder::{Command, Finished, Holder, Program, Wait};
pub use mongodb::{MongoDb, ReplicaSet, StandaloneMongoDb};
#[cfg(feature = "servers-sql")]
pub use mysql::MySql;
pub use owned::{Clock, Owned, Persistence, Settings};
#[cfg(feature = "servers-sql")]
pub use pgbouncer::PgBouncer;
#[cfg(feature = "servers-sql")]
pub use postgres::Postgres;
pub use process::{Ended, Process};
pub use product::{Farewell, Place, Product};
pub use redis::Redis;
pub use requirement::{Absence, Requirement};

/// A running server.
///
/// Displayed, it says in one line what it is and where it comes from, never a password.
#[derive(Debug)]
pub enum Server {
    /// Somebody else's, from a URL in the environment.
    Given(Given),
    /// Started here.
    Owned(Box<Owned>),
}

impl Server {
    /// The one that the environment names, else one started with default settings.
    pub fn find(product: &'static dyn Product) -> Result<Server, Absence> {
        Server::find_or_start(product, &Settings::default())
    }

    /// The one that the environment names, else one started with these settings.
    pub fn find_or_start(product: &'static dyn Product, settings: &Settings) -> Result<Server, Absence> {
        match Given::from_env(product) {
            Some(given) => given.map(Server::Given),
            None => Owned::start(product, settings).map(|owned| Server::Owned(Box::new(owned))),
        }
    }

    /// Where clients connect. It may hold a password.
    pub fn url(&self) -> &str {
        match self {
            Server::Given(given) => &given.url,
            Server::Owned(owned) => owned.url(),
        }
    }

    /// The server if it was started here, and so may be hurt.
    pub fn owned(&self) -> Option<&Owned> {
        match self {
            Server::Given(_) => None,
            Server::Owned(owned) => Some(owned),
        }
    }

    /// What the product calls itself, and its version.
    pub fn version(&self) -> &str {
        match self {
            Server::Given(given) => &given.version,
            Server::Owned(owned) => owned.version(),
        }
    }

    /// Where it comes from.
    pub fn source(&self) -> Source {
        match self {
            Server::Given(given) => given.source.clone(),
            Server::Owned(owned) => owned.program().source(),
        }
    }
}

impl fmt::Display for Server {
    /// `redis 7.0.15, started from /usr/bin/redis-server`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.version(), self.source())
    }
}

/// Where a server comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The URL in this environment variable.
    Url {
        /// `LOCK_TEST_REDIS`, …
        variable: &'static str,
    },
    /// This program, started here.
    Program(PathBuf),
    /// This program of another system, started here under chroot.
    Chroot(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Url { variable } => write!(f, "given by {variable}"),
            Source::Program(program) => write!(f, "started from {}", program.display()),
            Source::Chroot(program) => write!(f, "started from {} under chroot", program.display()),
        }
    }
}

/// Somebody else's server.
pub struct Given {
    url: String,
    version: String,
    source: Source,
}

impl Given {
    /// The server that the product's environment variable names; it must answer.
    fn from_env(product: &dyn Product) -> Option<Result<Given, Absence>> {
        let variable = product.listing().variable;
        let url = std::env::var(variable).ok().filter(|url| !url.is_empty())?;
        Some(match product.greet(&url) {
            Ok(version) => {
                let source = Source::Url { variable };
                record::ran_on(&version, &source);
                Ok(Given { url, version, source })
            }
            Err(why) => Err(Absence::Failure(format!("the server of {variable} does not answer: {why}"))),
        })
    }
}

impl fmt::Debug for Given {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("version", &self.version)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
