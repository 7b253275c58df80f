//! The suite's access to a Redis server: the facts that it reads, and the faults that it causes.

use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::Counters;
use lock_conformance::harness::{Age, Count, Forget, Interrupt, Residue};
use lock_core::Name;
use lock_redis::Layout;
use lock_test_servers::RedisAdmin;

/// The suite's access to a server past the backend.
#[derive(Debug)]
pub(crate) struct Admin {
    url: String,
    /// The commands that count as requests, besides `EVALSHA`.
    requests: &'static [&'static str],
}

/// The commands that clients send. Scripts call `PTTL` as well, so the sum is an upper bound.
const REQUESTS: &[&str] = &["eval", "subscribe", "unsubscribe", "pttl"];
/// A fair lock's waiters look by the script alone, which calls `PTTL` several times.
const REQUESTS_OF_FAIR_WAITERS: &[&str] = &["eval", "subscribe", "unsubscribe"];

impl Admin {
    pub(crate) fn of(url: &str, layout: Layout) -> Admin {
        let requests = match layout {
            Layout::Fair(_) => REQUESTS_OF_FAIR_WAITERS,
            _ => REQUESTS,
        };
        Admin { url: url.to_owned(), requests }
    }
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
        let calls = |command: &str| find(&info, &format!("cmdstat_{command}:calls="));
        // A command that was never sent has no line. A lock was granted before anything is counted.
        let granted = calls("evalsha").expect("the server counts calls of evalsha");
        Counters {
            requests: granted + self.requests.iter().filter_map(|command| calls(command)).sum::<u64>(),
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

/// The end of the key of a token.
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
