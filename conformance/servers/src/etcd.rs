//! etcd: one member, and a cluster of three.

mod cluster;

use std::io;
use std::process::Command;

use super::catalogue::{self, Listing};
use super::executable::Executable;
use super::product::{Place, Product};
use super::server_url::{PATIENCE, connect, exchange};
use super::settings::Settings;

/// A cluster of one member. Its clock cannot be set: leases end by Go's monotonic clock.
#[derive(Debug)]
pub struct Etcd;

/// The port that a URL need not name.
const PORT: u16 = 2379;
/// The socket in its folder. Addresses in etcd have a port, even if they are files.
const SOCKET: &str = "etcd:0";
/// After how many milliseconds a single member elects itself. Clients can't ask for it.
const ELECTION: &str = "200";
/// The address at which a single member would listen to other members.
const PEERS: &str = "peer:0";

impl Product for Etcd {
    fn listing(&self) -> &'static Listing {
        &catalogue::ETCD
    }

    fn prepare(&self, _: &Executable, place: &Place, _: &Settings) -> io::Result<()> {
        std::fs::create_dir_all(self.data(place))
    }

    /// etcd syncs everything that it writes, so there is no etcd without persistence. Its address for other members, of
    /// which there are none, is a file.
    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        // HTTPS with a certificate, HTTP without one.
        let scheme =
            if settings.args.iter().any(|argument| argument == "--cert-file") { "https" } else { "http" };
        let clients = format!("{scheme}://{}:{}", place.address, place.port);
        // A member that was killed has left its sockets behind, and would not listen on them again.
        for socket in [SOCKET, PEERS] {
            std::fs::remove_file(self.data(place).join(socket)).ok();
        }
        let mut command = program.command();
        command.current_dir(self.data(place)).args(["--data-dir", "member"]);
        command.args(["--listen-client-urls", &format!("{clients},unix://{SOCKET}")]);
        command.args(["--advertise-client-urls", &clients]);
        command.args(["--listen-peer-urls", "unix://peer:0"]);
        command.args(["--initial-advertise-peer-urls", "unix://peer:0"]);
        command.args(["--initial-cluster", "default=unix://peer:0"]);
        // A single member waits for no other member's heartbeat. So leases can be as short as a second.
        command.args(["--heartbeat-interval", "20", "--election-timeout", ELECTION]);
        command
            .args(["--logger", "zap", "--log-level", "warn", "--log-outputs", "stderr"])
            .args(&settings.args);
        command
    }

    fn url(&self, place: &Place) -> String {
        format!("etcd://{}:{}?election={ELECTION}ms", place.address, place.port)
    }

    /// The socket is in the server's folder, so no other server can answer there. etcd has no such URL; only this module
    /// reads it.
    fn own_url(&self, place: &Place) -> String {
        format!("unix://{}", self.data(place).join(SOCKET).display())
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        greet(url)
    }
}

/// Fails while the member can't write, for example without a majority of its cluster.
fn greet(url: &str) -> io::Result<String> {
    if url.starts_with("etcds:") {
        // The rest would need TLS.
        connect(url, PORT, PATIENCE).map(drop)?;
        return Ok("etcd of unknown version".to_owned());
    }
    let health = get(url, "/health")?;
    if !health.contains("\"true\"") && !health.contains("auth") {
        return Err(io::Error::other(format!("it is not healthy: {health}")));
    }
    let answer = get(url, "/version")?;
    let version = answer.split_once("\"etcdserver\":\"").and_then(|(_, rest)| rest.split_once('"'));
    Ok(format!("etcd {}", version.map_or("of unknown version", |(version, _)| version)))
}

/// Returns the member's answer under this path.
fn get(url: &str, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    match exchange(url, PORT, &request)?.split_once("\r\n\r\n") {
        Some((_, body)) => Ok(body.to_owned()),
        None => Err(io::Error::other("this is not an HTTP answer")),
    }
}
