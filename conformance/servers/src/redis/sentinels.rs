//! Three sentinels, which promote a replica when the primary is gone.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::super::catalogue::{self, Listing};
use super::super::cluster;
use super::super::executable::Executable;
use super::super::owned::Owned;
use super::super::product::{Place, Product};
use super::super::requirement::Absence;
use super::super::settings::Settings;
use super::{RedisReplicas, ask, greet, line, login, socket};

/// Three sentinels that were started here. Dropping it kills them.
#[derive(Debug)]
pub struct RedisSentinels {
    sentinels: Vec<Owned>,
    password: Option<String>,
}

/// Settings of sentinels.
#[derive(Clone, Debug)]
pub struct SentinelSettings {
    /// For how long a primary may be silent before two of the sentinels, which is a majority, take it for dead.
    pub down_after: Duration,
    /// The password that they want of clients, and of each other.
    pub password: Option<String>,
}

impl Default for SentinelSettings {
    /// Half a second, and no password.
    fn default() -> SentinelSettings {
        SentinelSettings { down_after: Duration::from_millis(500), password: None }
    }
}

/// One sentinel. [Arguments](Settings::args) are lines of its configuration.
#[derive(Debug)]
pub struct RedisSentinel;

impl Product for RedisSentinel {
    fn listing(&self) -> &'static Listing {
        &catalogue::REDIS
    }

    fn prepare(&self, _: &Executable, place: &Place, settings: &Settings) -> io::Result<()> {
        let (folder, socket) = (place.folder.display(), socket(place));
        let (port, socket, further) = (place.port, socket.display(), settings.args.join("\n"));
        let lines = format!("port {port}\nbind 127.0.0.1\ndir {folder}\nunixsocket {socket}\n{further}\n");
        fs::write(configuration(place), lines)
    }

    fn command(&self, program: &Executable, place: &Place, _: &Settings) -> Command {
        let mut command = program.command();
        command.arg(configuration(place)).arg("--sentinel");
        command
    }

    fn url(&self, place: &Place) -> String {
        format!("redis+sentinel://127.0.0.1:{}/{}", place.port, RedisSentinels::SERVICE)
    }

    fn own_url(&self, place: &Place) -> String {
        format!("redis+unix://{}", socket(place).display())
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        greet(url).map_err(io::Error::other)
    }
}

impl RedisSentinels {
    /// The primary's name in their configuration.
    pub const SERVICE: &str = "locks";

    /// Starts three sentinels that watch these servers, and waits until each knows the others and both replicas.
    ///
    /// # Errors
    ///
    /// If Redis is missing or does not start, or if they do not find each other in time.
    pub fn watch(servers: &RedisReplicas, own: &SentinelSettings) -> Result<RedisSentinels, Absence> {
        let failure = |e| Absence::Failure(format!("no sentinels: {e}"));
        let primary = servers.primary().map_err(failure)?;
        let port = servers.servers()[primary].port();
        // The last one notices late: it is no candidate, and its vote decides between the others. Three that notice at the
        // same moment often elect none of them, and try again seconds later.
        let settings = [1, 1, 4].map(|times| Settings {
            args: lines(port, servers.password(), own, times),
            ..Settings::default()
        });
        let sentinels = cluster::start(&RedisSentinel, &settings)?;
        let sentinels = RedisSentinels { sentinels, password: own.password.clone() };
        sentinels.hurry();
        sentinels.become_ready().map_err(failure)?;
        Ok(sentinels)
    }

    /// Returns the URL for clients, which names all sentinels. `login` is the servers': `user:password@`, or nothing.
    pub fn url(&self, login: &str) -> String {
        let hosts = cluster::addresses(&self.sentinels);
        let parameter = self.password.as_ref().map(|password| format!("?sentinel_password={password}"));
        let parameter = parameter.unwrap_or_default();
        format!("redis+sentinel://{login}{hosts}/{}{parameter}", Self::SERVICE)
    }

    /// Returns the sentinels.
    pub fn members(&self) -> &[Owned] {
        &self.sentinels
    }

    /// Waits until each sentinel that runs knows both replicas and both other sentinels, so that a failover is possible.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn become_ready(&self) -> io::Result<()> {
        cluster::all(&self.sentinels, |sentinel| {
            let url = login(&sentinel.own_url(), self.password.as_deref());
            line(&url, &["INFO", "sentinel"], "master0")
                .is_some_and(|line| line.contains("status=ok") && line.contains("slaves=2,sentinels=3"))
        })
    }

    /// Shortens the periods in which they look at each other: by default they need seconds to know of each other. A
    /// program that can't be told, before Redis 7, is as slow as it is. The period of pings stays: a replica is promoted
    /// only if it was heard of within five of them.
    fn hurry(&self) {
        for sentinel in &self.sentinels {
            let url = login(&sentinel.own_url(), self.password.as_deref());
            let periods = ["INFO-PERIOD", "200", "ASK-PERIOD", "100", "PUBLISH-PERIOD", "200"];
            let _: io::Result<()> = ask(&url, &[["SENTINEL", "DEBUG"].as_slice(), &periods].concat());
        }
    }
}

fn lines(port: u16, servers: Option<&str>, own: &SentinelSettings, times: u32) -> Vec<String> {
    let name = RedisSentinels::SERVICE;
    let down_after = (own.down_after * times).as_millis();
    let mut lines = vec![
        format!("sentinel monitor {name} 127.0.0.1 {port} 2"),
        format!("sentinel down-after-milliseconds {name} {down_after}"),
        format!("sentinel failover-timeout {name} 2000"),
        format!("sentinel parallel-syncs {name} 2"),
    ];
    if let Some(password) = servers {
        lines.push(format!("sentinel auth-pass {name} {password}"));
    }
    if let Some(password) = &own.password {
        lines.extend([format!("requirepass {password}"), format!("sentinel sentinel-pass {password}")]);
    }
    lines
}

fn configuration(place: &Place) -> PathBuf {
    place.folder.join("sentinel.conf")
}
