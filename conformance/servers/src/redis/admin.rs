//! The reads and changes that a test makes on a Redis server, on a connection of its own.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue};

/// A connection of a test to a Redis server, past the backend.
#[derive(Clone)]
pub struct RedisAdmin(MultiplexedConnection);

impl std::fmt::Debug for RedisAdmin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedisAdmin")
    }
}

impl RedisAdmin {
    /// Connects to the server at this URL.
    ///
    /// # Panics
    ///
    /// If it can't be reached; so does every other method.
    pub async fn of(url: &str) -> RedisAdmin {
        let client = redis::Client::open(url).expect("a URL that was used before");
        // redis' own time limit is half a second, which a busy machine may need.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        RedisAdmin(client.get_multiplexed_async_connection_with_config(&config).await.expect("up"))
    }

    /// Returns the connection, for other commands.
    pub fn connection(&mut self) -> &mut MultiplexedConnection {
        &mut self.0
    }

    /// Returns how many keys there are.
    pub async fn key_count(&mut self) -> u64 {
        self.ask(&redis::cmd("DBSIZE")).await
    }

    /// Returns the keys that end with one of these.
    pub async fn keys_with(&mut self, endings: &[&str]) -> BTreeSet<Vec<u8>> {
        self.keys("ends(key)", endings).await
    }

    /// Returns the keys that end with none of these.
    pub async fn keys_without(&mut self, endings: &[&str]) -> BTreeSet<Vec<u8>> {
        self.keys("not ends(key)", endings).await
    }

    /// Returns how many channels have subscribers, without the one on which sentinels meet.
    pub async fn channel_count(&mut self) -> u64 {
        let channels: Vec<Vec<u8>> = self.ask(redis::cmd("PUBSUB").arg("CHANNELS")).await;
        channels.iter().filter(|channel| *channel != b"__sentinel__:hello").count() as u64
    }

    /// Brings the end of every key nearer by `by`, except for keys that end with one of `kept`. A key without expiry stays
    /// as it is.
    pub async fn age(&mut self, by: Duration, kept: &[&str]) {
        let by = by.as_millis();
        let age = format!(
            "local left = redis.call('PTTL', key) \
             if left >= 0 and not ends(key) then redis.call('PEXPIRE', key, left - {by}) end"
        );
        self.scan(&age, kept).await;
    }

    /// Cuts every other connection, and empties the cache of scripts.
    pub async fn interrupt(&mut self) {
        let () = self.ask(redis::cmd("SCRIPT").arg("FLUSH")).await;
        for kind in ["pubsub", "normal"] {
            let mut kill = redis::cmd("CLIENT");
            let _: u64 = self.ask(kill.arg("KILL").arg("TYPE").arg(kind).arg("SKIPME").arg("yes")).await;
        }
    }

    async fn keys(&mut self, wanted: &str, endings: &[&str]) -> BTreeSet<Vec<u8>> {
        self.scan(&format!("if {wanted} then wanted[#wanted + 1] = key end"), endings).await
    }

    /// Runs a script for each `key`, and returns what it has put into `wanted`.
    ///
    /// The server chooses the keys: a hundred thousand names of others would take a test program seconds to read. It
    /// works in steps, because it answers no client while a script runs.
    async fn scan(&mut self, each: &str, endings: &[&str]) -> BTreeSet<Vec<u8>> {
        let script = format!(
            "{ENDS} local found = redis.call('SCAN', ARGV[1], 'COUNT', '1000') \
             local wanted = {{}} \
             for _, key in ipairs(found[2]) do {each} end \
             return {{found[1], wanted}}"
        );
        let (mut keys, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let (next, found): (String, Vec<Vec<u8>>) =
                self.ask(redis::cmd("EVAL").arg(&script).arg(0).arg(&cursor).arg(endings)).await;
            keys.extend(found);
            cursor = next;
            if cursor == "0" {
                return keys;
            }
        }
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> T {
        command.query_async(&mut self.0).await.unwrap_or_else(|e| panic!("{command:?}: {e}"))
    }
}

/// In Lua: whether a key ends with one of the arguments behind the cursor.
const ENDS: &str = "local function ends(key) \
     for n = 2, #ARGV do if string.sub(key, -#ARGV[n]) == ARGV[n] then return true end end \
     return false end";
