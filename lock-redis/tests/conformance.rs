//! Redis and Valkey under the suite.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::servers::{
    self, Absence, Clock, Owned, Persistence, Program, Server, Settings, catalogue,
};
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Step, Verdict};
use lock_core::{Client, Name, Options, Result};
use redis::aio::MultiplexedConnection;

fn main() -> Verdict {
    match Server::find(&servers::Redis) {
        Ok(server) => lock_conformance::run(Redis { server }),
        Err(Absence::NotRun(why)) => lock_conformance::not_run("redis", &why),
        Err(Absence::Failure(why)) => lock_conformance::failed("redis", &why),
    }
}

#[derive(Debug)]
struct Redis {
    server: Server,
}

#[async_trait]
impl Harness for Redis {
    fn name(&self) -> String {
        self.server.to_string()
    }

    async fn open(&self, options: Options) -> Result<Client> {
        lock_redis::connect_with(self.server.url(), options).await
    }

    fn can(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Forget | Need::Counters | Need::Residue | Need::Age => Ok(()),
            Need::Process if cfg!(unix) => Ok(()),
            Need::Proxy => split(self.server.url())
                .map(drop)
                .ok_or_else(|| "not by TCP without TLS: no proxy can stand in between".to_owned()),
            Need::ServerClock if self.server.owned().is_some() => servers::clock::can_be_set(),
            Need::OwnProgram if self.server.owned().is_none() => {
                Err("the server was not started here: there is none of a case's own".to_owned())
            }
            Need::Program | Need::OwnProgram => Program::find().map(drop).map_err(|a| a.to_string()),
            Need::Interrupt | Need::OwnServer | Need::Durable if self.server.owned().is_some() => Ok(()),
            _ => Err(format!("the server was not started here: the suite does not {need}")),
        }
    }

    fn url(&self) -> String {
        self.server.url().to_owned()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![(catalogue::REDIS.variable, self.url())]
    }

    fn address(&self) -> String {
        address(self.server.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open_through(self.server.url(), address, options).await
    }

    async fn forget(&self, name: &Name) {
        redis::cmd("DEL").arg(name.as_str()).exec_async(&mut self.admin().await).await.expect("DEL");
    }

    async fn counters(&self) -> Counters {
        let info = self.info().await;
        // What clients send. Scripts ask for PTTL too, which makes the sum an upper bound.
        let sent = ["evalsha", "eval", "subscribe", "unsubscribe", "pttl"];
        let calls = |command: &str| number(&info, &format!("cmdstat_{command}:calls="));
        Counters {
            requests: sent.iter().map(|command| calls(command)).sum(),
            writes: number(&info, "rdb_changes_since_last_save:"),
        }
    }

    /// Keys that are no tokens, and channels.
    async fn residue(&self) -> u64 {
        let mut admin = self.admin().await;
        let mut locks = BTreeSet::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("COUNT").arg(1000);
            let (next, keys): (u64, Vec<Vec<u8>>) = scan.query_async(&mut admin).await.expect("SCAN");
            locks.extend(keys.into_iter().filter(|key| !key.ends_with(b":lock~t")));
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        let channels: Vec<Vec<u8>> =
            redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut admin).await.expect("PUBSUB");
        (locks.len() + channels.len()) as u64
    }

    async fn kept(&self) -> u64 {
        let mut admin = self.admin().await;
        let keys: u64 = redis::cmd("DBSIZE").query_async(&mut admin).await.expect("DBSIZE");
        let channels: Vec<Vec<u8>> =
            redis::cmd("PUBSUB").arg("CHANNELS").query_async(&mut admin).await.expect("PUBSUB");
        keys + channels.len() as u64
    }

    /// A key that ends comes so much nearer to its end; one that doesn't stays as it is. In pieces: nobody is answered
    /// while a script runs.
    async fn age(&self, by: Duration) {
        const AGE: &str = "local found = redis.call('SCAN', ARGV[2], 'COUNT', '1000') \
             for _, key in ipairs(found[2]) do \
             local left = redis.call('PTTL', key) \
             if left >= 0 then redis.call('PEXPIRE', key, left - ARGV[1]) end end \
             return found[1]";
        let (mut admin, by) = (self.admin().await, by.as_millis().to_string());
        let mut cursor = "0".to_owned();
        loop {
            let mut age = redis::cmd("EVAL");
            age.arg(AGE).arg(0).arg(&by).arg(&cursor);
            cursor = age.query_async(&mut admin).await.expect("EVAL");
            if cursor == "0" {
                return;
            }
        }
    }

    async fn interrupt(&self) {
        let mut admin = self.admin().await;
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut admin).await.expect("SCRIPT FLUSH");
        for kind in ["pubsub", "normal"] {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg(kind).arg("SKIPME").arg("yes");
            kill.exec_async(&mut admin).await.expect("CLIENT KILL");
        }
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        own(Settings { persistence: Persistence::EveryWrite, ..Settings::default() })
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        // It is never started again: what it writes would only cost time.
        own(Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() })
    }
}

fn own(settings: Settings) -> Box<dyn OwnServer> {
    Box::new(Own(Owned::start(&servers::Redis, &settings).expect("another was started before")))
}

impl Redis {
    async fn admin(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.server.url()).expect("a URL that was used before");
        client.get_multiplexed_async_connection().await.expect("the server is up")
    }

    async fn info(&self) -> String {
        redis::cmd("INFO").arg("everything").query_async(&mut self.admin().await).await.expect("INFO")
    }
}

/// `host:port` of a URL that [`split`] takes apart.
fn address(url: &str) -> String {
    let (_, address, _) = split(url).expect("asked before");
    if address.contains("]:") || (address.contains(':') && !address.ends_with(']')) {
        address.to_owned()
    } else {
        format!("{address}:6379")
    }
}

/// A client at `url`, but for the address.
async fn open_through(url: &str, address: SocketAddr, options: Options) -> Result<Client> {
    let (before, _, after) = split(url).expect("asked before");
    lock_redis::connect_with(&format!("{before}{address}{after}"), options).await
}

/// What stands before host and port in the URL of a server that is reached by plain TCP, these, and what follows.
fn split(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(scheme, "redis" | "valkey") {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let start = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let before = scheme.len() + "://".len() + start;
    Some((&url[..before], &rest[start..end], &rest[end..]))
}

/// The number behind `label`, zero if it isn't there.
fn number(info: &str, label: &str) -> u64 {
    let found = info.lines().find_map(|line| line.strip_prefix(label));
    let digits = found.unwrap_or("0").split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[derive(Debug)]
struct Own(Owned);

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        lock_redis::connect_with(self.0.url(), options).await
    }

    fn pause(&mut self) {
        self.0.pause().expect("it runs");
    }

    fn resume(&mut self) {
        self.0.resume().expect("it was paused");
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
    }

    fn start(&mut self, data: Data) {
        self.0.restart(data).expect("it starts again");
    }

    fn url(&self) -> String {
        self.0.url().to_owned()
    }

    fn step_clock(&mut self, step: Step) {
        self.0.step_clock(step).expect("its clock can be set");
    }

    fn address(&self) -> String {
        address(self.0.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open_through(self.0.url(), address, options).await
    }
}
