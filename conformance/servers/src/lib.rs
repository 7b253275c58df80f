//! Real servers for the suite and the benchmarks, and real processes that hold locks on them. For a backend on one of
//! these servers, [`run_on_server`] runs the suite.
//!
//! A server comes from the first of these sources that has one:
//!
//! 1. what the environment names: a URL (`LOCK_TEST_REDIS=redis://…`), which is a server of other people and is never
//!    stopped or configured, or a container image (`LOCK_TEST_REDIS=docker:redis:7.4`);
//! 2. a program on the `PATH` (`redis-server`, `valkey-server`), started in a temporary folder on a free loopback port;
//! 3. for some products, a program of another system in a folder, started in the same way under chroot;
//! 4. for some products, a container of the official image: with the feature `docker`, where a Docker daemon answers
//!    and has the image.
//!
//! Anything missing is an [`Absence`]: cases that need it are *not run*. If `LOCK_TEST_REQUIRE=redis,…` names it, they
//! fail. Only an [`Owned`] server, which was started here from a program, can be killed, stopped and paused, so a case
//! that needs this takes an `Owned`.
//!
//! Calls block, usually for a fraction of a second. Asynchronous cases that need their thread meanwhile call them in
//! `spawn_blocking`. No program outlives the process that started it, however that process ends (on Unix; elsewhere no
//! program is started, and servers come from URLs or containers). A container outlives that process if it is killed.
//!
//! A further product needs one file with a [`Product`], and one entry in [`catalogue`].

mod backend;
pub mod catalogue;
#[cfg(feature = "certificates")]
mod certificates;
#[cfg(unix)]
mod child_processes;
pub mod clock;
mod cluster;
#[cfg(feature = "docker")]
mod docker;
#[cfg(not(feature = "docker"))]
#[path = "docker_absent.rs"]
mod docker;
mod etcd;
mod executable;
mod folder;
mod holder;
mod host;
mod image;
pub mod lazy;
mod mongodb;
#[cfg(feature = "sql")]
mod mysql;
mod owned;
#[cfg(feature = "sql")]
mod pgbouncer;
mod pipes;
mod port;
#[cfg(feature = "sql")]
mod postgres;
#[cfg(unix)]
mod process;
#[cfg(not(unix))]
#[path = "process_elsewhere.rs"]
mod process;
#[cfg(unix)]
mod process_tree;
#[cfg(not(unix))]
mod process_tree {
    pub(super) use super::process::Process as ProcessTree;
}
mod product;
mod redis;
mod requirement;
mod rules;
mod server;
mod server_url;
mod settings;
mod source;
#[cfg(feature = "sql")]
mod sql;
mod system;
#[cfg(feature = "sql")]
mod template;
mod this_program;
mod user;
mod waiting;
mod zookeeper;

pub use lock_conformance::harness::{ChildProcess, Command, Ended, Finished, Wait};

pub use backend::{Backend, run_on_server};
#[cfg(feature = "certificates")]
pub use certificates::{Certificate, CertificateFolder, Root};
pub use cluster::Cluster;
pub use etcd::Etcd;
pub use executable::{Account, Executable};
pub use holder::{Holder, Program};
pub use host::{Host, Network};
pub use image::Image;
pub use mongodb::MongoDb;
#[cfg(feature = "sql")]
pub use mysql::MySql;
pub use owned::Owned;
#[cfg(feature = "sql")]
pub use pgbouncer::PgBouncer;
pub use pipes::Pipes;
pub use port::Port;
#[cfg(feature = "sql")]
pub use postgres::Postgres;
pub use process::Process;
pub use product::{Place, Product};
pub use redis::{
    Redis, RedisAdmin, RedisCluster, RedisReplicas, RedisSentinel, RedisSentinels, SentinelSettings,
};
pub use requirement::{Absence, Requirement};
pub use rules::judged_on;
pub use server::Server;
pub use server_url::ServerUrl;
pub use settings::{Clock, Persistence, Settings};
pub use source::Source;
pub use this_program::ThisProgram;
pub use zookeeper::ZooKeeper;
