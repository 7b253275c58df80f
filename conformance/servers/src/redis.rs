//! Redis, and Valkey, which has the same protocol and the same options.

mod admin;
mod cluster;
mod replicas;
mod sentinels;

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::catalogue::{self, Listing};
use super::executable::Executable;
use super::image::Image;
use super::product::{Place, Product};
use super::settings::{Persistence, Settings};

pub use admin::RedisAdmin;
pub use cluster::RedisCluster;
pub use replicas::RedisReplicas;
pub use sentinels::{RedisSentinel, RedisSentinels, SentinelSettings};

/// Redis or Valkey, one server.
#[derive(Debug)]
pub struct Redis;

impl Product for Redis {
    fn listing(&self) -> &'static Listing {
        &catalogue::REDIS
    }

    fn data(&self, place: &Place) -> PathBuf {
        place.folder.clone()
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        let mut command = program.command();
        command.args(["--port", &place.port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
        command.arg("--dir").arg(&place.folder).arg("--unixsocket").arg(socket(place));
        command.args(persistence(settings)).args(&settings.args);
        command
    }

    fn url(&self, place: &Place) -> String {
        format!("redis://127.0.0.1:{}", place.port)
    }

    fn socket(&self, place: &Place) -> Option<PathBuf> {
        Some(socket(place))
    }

    /// The socket is enough: a Redis whose port is taken ends before it serves its socket.
    fn own_url(&self, place: &Place) -> String {
        format!("redis+unix://{}", socket(place).display())
    }

    /// An image of Valkey is started in the same way.
    fn image(&self, settings: &Settings) -> Option<Image> {
        let arguments = persistence(settings).iter().map(|&argument| argument.to_owned());
        Some(Image {
            name: "redis:7.4",
            port: 6379,
            environment: &[],
            arguments: arguments.chain(settings.args.iter().cloned()).collect(),
            url: |address| format!("redis://{address}"),
        })
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        greet(url).map_err(io::Error::other)
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        let (seconds, micros): (u64, u64) = ask(url, &["TIME"])?;
        Ok(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros))
    }
}

fn persistence(settings: &Settings) -> &'static [&'static str] {
    match settings.persistence {
        Persistence::EveryWrite => &["--save", "", "--appendonly", "yes", "--appendfsync", "always"],
        Persistence::None => &["--save", "", "--appendonly", "no"],
    }
}

fn socket(place: &Place) -> PathBuf {
    place.folder.join("redis.sock")
}

/// Connects, and waits for an answer for a second at most.
fn connect(url: &str) -> redis::RedisResult<redis::Connection> {
    let limit = Duration::from_secs(1);
    // The parameters are for the backend, not for the server. Those of a socket are its login.
    let is_socket = url.starts_with("redis+unix:");
    let server = if is_socket { url } else { url.split('?').next().unwrap_or(url) };
    let connection = redis::Client::open(server)?.get_connection_with_timeout(limit)?;
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit))?;
    Ok(connection)
}

/// Returns the URL of a socket with a password.
fn login(url: &str, password: Option<&str>) -> String {
    password.map_or(url.to_owned(), |password| format!("{url}?pass={password}"))
}

/// Sends one command on a connection of its own.
fn ask<T: redis::FromRedisValue>(url: &str, command: &[&str]) -> io::Result<T> {
    let mut connection = connect(url).map_err(io::Error::other)?;
    redis::cmd(command[0]).arg(&command[1..]).query(&mut connection).map_err(io::Error::other)
}

/// Returns the value of one line of the answer to a command; `None` if there is no such line, or no answer.
fn line(url: &str, command: &[&str], name: &str) -> Option<String> {
    let info: String = ask(url, command).ok()?;
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_owned))
}

fn greet(url: &str) -> redis::RedisResult<String> {
    let mut connection = connect(url)?;
    // The server refuses this while it still loads its data.
    match redis::cmd("PING").exec(&mut connection) {
        // It answers. Whether the user of the URL has the rights is not checked here.
        Err(e) if e.code() == Some("NOAUTH") => {}
        answer => answer?,
    }
    // The user may lack the right to INFO.
    let info: String = redis::cmd("INFO").arg("server").query(&mut connection).unwrap_or_default();
    Ok(version(&info))
}

/// Reads the name and the version from the answer to INFO. Valkey also states the version of Redis that it corresponds
/// to.
fn version(info: &str) -> String {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => format!("valkey {version}"),
        (None, Some(version)) => format!("redis {version}"),
        (None, None) => "redis of unknown version".to_owned(),
    }
}
