//! Redis and Valkey, as the conformance suite uses them.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Age, Count, Forget, Identity, Interrupt, Promise, Residue, Rises};
use lock_conformance::{Counters, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_redis::Layout;
use lock_test_servers::{
    self as servers, AdminAbilities, Backend, Product, RedisAdmin, Server, ServerUrl, run_on_server,
};

/// Runs the suite on locks that are stored in this way.
pub(crate) fn run(layout: Layout) -> Verdict {
    run_on_server(Redis { layout })
}

#[derive(Debug)]
struct Redis {
    layout: Layout,
}

#[async_trait]
impl Backend for Redis {
    fn product(&self) -> &'static dyn Product {
        &servers::Redis
    }

    /// docs/semantics.md has the hour: how far the clock may be set back.
    fn promised(&self) -> Vec<Promise> {
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let fair = match self.layout {
            Layout::Fair(_) => Fair::PerProcess,
            _ => Fair::No,
        };
        vec![Promise { lease: Lease::Lock, fair, rises, identity: Identity::Told }]
    }

    fn locks_at(&self, url: &str) -> String {
        let layout = match self.layout {
            Layout::Redisson => "layout=redisson".to_owned(),
            Layout::Fair(grace) => format!("fair=true&grace={}ms", grace.get().as_millis()),
            _ => "layout=own".to_owned(),
        };
        format!("{url}{}{layout}", if url.contains('?') { '&' } else { '?' })
    }

    async fn open(&self, url: &str, options: Options) -> Result<Client> {
        lock_redis::connect_with(&self.locks_at(url), options).await
    }

    fn address(&self, url: &str) -> Result<String, Missing> {
        let is_plain = ["redis://", "valkey://"].iter().any(|scheme| url.starts_with(scheme));
        match ServerUrl::parse(url) {
            Ok(parts) if is_plain => Ok(parts.address(6379)),
            _ => Err(Missing::because("not by TCP without TLS: no proxy can stand in between")),
        }
    }

    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client> {
        let url = ServerUrl::parse(url).expect("it has an address");
        lock_redis::connect_with(&self.locks_at(&url.at(address)), options).await
    }

    fn admin(&self, server: &Server) -> AdminAbilities {
        AdminAbilities::all(Admin { url: server.url().to_owned() })
    }
}

/// What a test reads of a server, and does to it, past the backend.
#[derive(Debug)]
struct Admin {
    url: String,
}

#[async_trait]
impl Forget for Admin {
    async fn forget(&self, name: &Name) {
        let mut forget = redis::cmd("DEL");
        let forgot: u64 = forget
            .arg(name.as_str())
            .query_async(RedisAdmin::of(&self.url).await.connection())
            .await
            .expect("DEL");
        assert_eq!(forgot, 1, "{name} was held");
    }
}

#[async_trait]
impl Count for Admin {
    async fn counters(&self) -> Counters {
        let info = info(&self.url).await;
        // The commands that clients send. Scripts call PTTL as well, so the sum is an upper bound.
        let sent = ["eval", "subscribe", "unsubscribe", "pttl"];
        let calls = |command: &str| find(&info, &format!("cmdstat_{command}:calls="));
        // A command that was never sent has no line. A lock was granted before anything is counted.
        let granted = calls("evalsha").expect("the server counts calls of evalsha");
        Counters {
            requests: granted + sent.iter().filter_map(|command| calls(command)).sum::<u64>(),
            writes: find(&info, "rdb_changes_since_last_save:").expect("the server counts changes"),
        }
    }
}

#[async_trait]
impl Residue for Admin {
    /// Counts the keys that are not tokens, and the channels.
    async fn residue(&self) -> u64 {
        let mut admin = RedisAdmin::of(&self.url).await;
        admin.keys_without(&[TOKEN]).await.len() as u64 + admin.channel_count().await
    }
}

#[async_trait]
impl Age for Admin {
    async fn kept(&self) -> u64 {
        let mut admin = RedisAdmin::of(&self.url).await;
        admin.key_count().await + admin.channel_count().await
    }

    async fn age(&self, by: Duration) {
        RedisAdmin::of(&self.url).await.age(by, &[]).await;
    }
}

#[async_trait]
impl Interrupt for Admin {
    async fn interrupt(&self) {
        RedisAdmin::of(&self.url).await.interrupt().await;
    }
}

/// How the key of a token ends.
const TOKEN: &str = ":lock~t";

async fn info(url: &str) -> String {
    redis::cmd("INFO")
        .arg("everything")
        .query_async(RedisAdmin::of(url).await.connection())
        .await
        .expect("INFO")
}

/// Returns the number after `label`, if the label is there.
fn find(info: &str, label: &str) -> Option<u64> {
    let found = info.lines().find_map(|line| line.strip_prefix(label))?;
    let digits = found.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(digits.parse().unwrap_or_else(|_| panic!("no number behind {label}: {found}")))
}
