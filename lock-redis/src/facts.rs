//! The server's report about itself, as far as this user may read it: its version, and the persistence of its
//! data.

use std::collections::HashMap;
use std::num::NonZeroU8;

use lock_core::{Error, Result};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult, Value};

use crate::delivery::Delivery;
use crate::errors;

/// The server's report when the connection was opened. `None`: it did not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) version: Option<Version>,
    /// The identifier of the server's process: a new one after each start.
    pub(crate) run: Option<String>,
    /// Each user may ask for it.
    pub(crate) role: Option<Role>,
    /// The way in which it notifies waiters of releases. Each user may ask for it, too.
    pub(crate) delivery: Delivery,
    pub(crate) membership: Membership,
    pub(crate) persistence: Option<Persistence>,
    pub(crate) eviction: Option<Eviction>,
    /// The number of replicas that are attached.
    pub(crate) replicas: Option<u32>,
}

/// The membership of a server in a group that shares the keys. Each user may ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Membership {
    #[default]
    Alone,
    OfACluster,
}

/// The role of a server among those that it shares its data with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The server takes writes. So does a server without replicas.
    Primary,
    /// The server copies another. Its primary never learns of a write there, where that is allowed at all: a
    /// lock would exist on this copy alone, until the next synchronization.
    Replica,
}

/// The program, and its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    program: &'static str,
    /// The release as the program counts it: Valkey 8.1.
    shown: String,
    /// The release of Redis that it is compatible with.
    redis: (u32, u32),
}

/// The persistence of the data in a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Every write is in the append-only file, synced as `appendfsync` says, if that is known.
    AppendOnly { fsync: Option<String> },
    /// Snapshots as `save` says, if that is known. An empty `save`: no snapshots.
    Snapshots { save: Option<String> },
}

/// The memory limit, and the policy when it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Eviction {
    limit: u64,
    policy: String,
}

impl Facts {
    /// Asks over a connection that was opened this moment. Returns the server's time in microseconds as well.
    ///
    /// `Rejected` if the server wants a password or is too old.
    pub(crate) async fn read(connection: &mut MultiplexedConnection) -> Result<(i64, Facts)> {
        let mut questions = redis::pipe();
        questions.ignore_errors().cmd("HELLO").cmd("TIME");
        for section in ["server", "persistence", "memory", "replication"] {
            questions.cmd("INFO").arg(section);
        }
        for setting in ["appendfsync", "save"] {
            questions.cmd("CONFIG").arg("GET").arg(setting);
        }
        let answers: Vec<RedisResult<Value>> =
            questions.query_async(connection).await.map_err(errors::connecting)?;
        let mut answers = answers.into_iter();
        let hello = answers.next().map(Hello::of).unwrap_or_default();
        if hello.mode.as_deref() == Some("sentinel") {
            return Err(Error::rejected(
                "it is a sentinel; the URL of sentinels is redis+sentinel://host1,host2,host3/mymaster",
            ));
        }
        let now = time(answers.next())?;
        let info: String = answers.by_ref().take(4).filter_map(read::<String>).collect();
        let settings: HashMap<String, String> =
            answers.filter_map(read::<HashMap<String, String>>).flatten().collect();
        let facts = Facts {
            role: hello.role,
            delivery: hello.delivery(),
            membership: hello.membership(),
            ..Facts::parse(&info, &settings)
        };
        facts.version.as_ref().map_or(Ok(()), Version::check)?;
        Ok((now, facts))
    }

    fn parse(info: &str, settings: &HashMap<String, String>) -> Facts {
        let info: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
        let number = |key: &str| info.get(key)?.parse().ok();
        let setting = |key: &str| settings.get(key).cloned();
        let persistence = info.get("aof_enabled").map(|enabled| match *enabled {
            "1" => Persistence::AppendOnly { fsync: setting("appendfsync") },
            _ => Persistence::Snapshots { save: setting("save") },
        });
        let eviction = (|| {
            Some(Eviction {
                limit: number("maxmemory")?,
                policy: (*info.get("maxmemory_policy")?).to_owned(),
            })
        })();
        let replicas = number("connected_slaves").and_then(|n| u32::try_from(n).ok());
        let run = info.get("run_id").map(|run| (*run).to_owned());
        let version = Version::parse(&info);
        Facts { version, run, persistence, eviction, replicas, ..Facts::default() }
    }

    /// Returns whether the server copies another, so that nothing may be written there.
    pub(crate) fn is_replica(&self) -> bool {
        self.role == Some(Role::Replica)
    }
}

impl Role {
    /// Reads the role from the answer to `HELLO`, which no access rule forbids.
    pub(crate) fn of(answer: RedisResult<Value>) -> Option<Role> {
        Hello::of(answer).role
    }
}

/// The server's report about itself to every user.
#[derive(Debug, Default)]
pub(crate) struct Hello {
    role: Option<Role>,
    /// `standalone`, `cluster` or `sentinel`.
    mode: Option<String>,
    /// The release, as the program counts it.
    version: Option<String>,
}

impl Hello {
    pub(crate) fn of(answer: RedisResult<Value>) -> Hello {
        let Some(said) = read::<HashMap<String, Value>>(answer) else { return Hello::default() };
        let text = |key: &str| redis::from_redis_value_ref::<String>(said.get(key)?).ok();
        let role = match text("role").as_deref() {
            Some("master") => Some(Role::Primary),
            Some(_) => Some(Role::Replica),
            None => None,
        };
        Hello { role, mode: text("mode"), version: text("version") }
    }

    fn membership(&self) -> Membership {
        match self.mode.as_deref() {
            Some("cluster") => Membership::OfACluster,
            _ => Membership::Alone,
        }
    }

    pub(crate) fn delivery(&self) -> Delivery {
        Delivery::of(self.mode.as_deref(), self.version.as_deref())
    }
}

fn time(answer: Option<RedisResult<Value>>) -> Result<i64> {
    let no_time = || Error::rejected("the server did not tell its time; is it Redis or Valkey?");
    let answer = answer.ok_or_else(no_time)?.map_err(errors::connecting)?;
    let (seconds, micros): (i64, i64) =
        redis::from_redis_value(answer).map_err(|e| no_time().with_source(e))?;
    seconds.checked_mul(1_000_000).and_then(|s| s.checked_add(micros)).ok_or_else(no_time)
}

/// Reads an answer; `None` if the server refused to give it.
fn read<T: FromRedisValue>(answer: RedisResult<Value>) -> Option<T> {
    redis::from_redis_value(answer.ok()?).ok()
}

impl Version {
    fn parse(info: &HashMap<&str, &str>) -> Option<Version> {
        let redis = *info.get("redis_version")?;
        let (program, shown) = match info.get("valkey_version") {
            Some(valkey) => ("Valkey", *valkey),
            None => ("Redis", redis),
        };
        let mut parts = redis.split('.').map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return None };
        Some(Version { program, shown: shown.to_owned(), redis: (major, minor) })
    }

    /// Refuses a server before 6.2, which lacks `SET … PXAT`.
    fn check(&self) -> Result<()> {
        match self.redis >= (6, 2) {
            true => Ok(()),
            false => Err(Error::rejected(format!(
                "the server is {self}; locks need Redis 6.2 or later, or Valkey"
            ))),
        }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.program, self.shown)
    }
}

/// The fitness of one property of the server for locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fitness {
    Good(String),
    Limited(String),
    Unknown(String),
}

impl Fitness {
    pub(crate) fn words(&self) -> &str {
        let (Fitness::Good(words) | Fitness::Limited(words) | Fitness::Unknown(words)) = self;
        words
    }
}

impl Facts {
    /// Returns what a crash of the server loses.
    pub(crate) fn persistence(&self) -> Fitness {
        let limited = |words: String| Fitness::Limited(words);
        match &self.persistence {
            None => Fitness::Unknown("whether the server keeps its data over a crash is unknown".into()),
            Some(Persistence::AppendOnly { fsync: Some(fsync) }) => match fsync.as_str() {
                "always" => Fitness::Good("every write is on disk before it is answered".into()),
                "everysec" => limited(
                    "a crash of the machine loses the last second or two (appendfsync everysec)".into(),
                ),
                other => limited(format!(
                    "a crash of the machine loses what was not yet on disk (appendfsync {other})"
                )),
            },
            Some(Persistence::AppendOnly { fsync: None }) => limited(
                "a crash of the machine may lose the last writes (append-only file, appendfsync unknown)"
                    .into(),
            ),
            Some(Persistence::Snapshots { save: Some(save) }) if save.is_empty() => {
                limited("a restart loses everything (no append-only file, no snapshots)".into())
            }
            Some(Persistence::Snapshots { .. }) => {
                limited("a restart loses what came after the last snapshot (no append-only file)".into())
            }
        }
    }

    /// Returns whether locks are evicted when the memory is full.
    pub(crate) fn eviction(&self) -> Fitness {
        match &self.eviction {
            None => Fitness::Unknown("whether the server evicts keys is unknown".into()),
            Some(Eviction { limit: 0, .. }) => Fitness::Good("nothing is evicted (no maxmemory)".into()),
            Some(Eviction { policy, .. }) if policy == "noeviction" => {
                Fitness::Good("nothing is evicted (maxmemory-policy noeviction)".into())
            }
            Some(Eviction { policy, .. }) => Fitness::Limited(format!(
                "locks and tokens may be evicted when memory runs out (maxmemory-policy {policy})"
            )),
        }
    }

    /// Returns what a failover loses.
    pub(crate) fn replication(&self) -> Fitness {
        match (self.role, self.replicas) {
            (Some(Role::Replica), _) => {
                Fitness::Limited("the server is a replica, on which nothing is locked".into())
            }
            (_, None) => Fitness::Unknown("whether the server has replicas is unknown".into()),
            (_, Some(0)) => Fitness::Good("no replicas are attached".into()),
            (_, Some(replicas)) => Fitness::Limited(format!(
                "replication is asynchronous: the promotion of a replica ({replicas} attached) loses what it has not \
                 yet received"
            )),
        }
    }

    /// Returns what a failover loses where replicas stand ready for it, whether they are attached at present
    /// or not.
    pub(crate) fn failover(&self) -> Fitness {
        let attached = match self.replicas {
            Some(replicas) => format!("{replicas} attached"),
            None => "how many are attached is unknown".to_owned(),
        };
        Fitness::Limited(format!(
            "replication is asynchronous: a failover loses what the promoted replica has not yet received, so that a \
             lock can be granted again ({attached})"
        ))
    }

    /// Returns what a failover loses where so many replicas have to acknowledge each grant.
    pub(crate) fn failover_with(&self, acks: NonZeroU8) -> Fitness {
        let kept = format!(
            "replicas acknowledge each grant and each renewal before it counts (ack={acks}): a failover to one that has \
             loses none of them"
        );
        match self.replicas {
            None => Fitness::Unknown(format!("{kept}; how many others are attached is unknown")),
            Some(attached) if attached > u32::from(acks.get()) => Fitness::Limited(format!(
                "{kept}; one to another of the {attached} attached replicas may, and a lock can be granted again"
            )),
            Some(attached) if attached < u32::from(acks.get()) => {
                Fitness::Limited(format!("{kept}; {attached} attached: no lock can be taken"))
            }
            Some(attached) => Fitness::Good(format!("{kept} ({attached} attached)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, RedisError};

    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\ntcp_port:6379\r\n# Persistence\r\naof_enabled:1\r\n\
        # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n";

    fn facts(changes: &[(&str, &str)], settings: &[(&str, &str)]) -> Facts {
        let info = changes.iter().fold(INFO.to_owned(), |info, (from, to)| info.replace(from, to));
        let owned = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Facts::parse(&info, &owned)
    }

    #[test]
    fn only_redis_before_6_2_is_refused() {
        let shown = |facts: Facts| facts.version.map(|v| (v.to_string(), v.check().is_ok()));
        assert_eq!(shown(facts(&[], &[])), Some(("Redis 7.0.15".into(), true)));
        assert_eq!(shown(facts(&[("7.0.15", "6.2.0")], &[])), Some(("Redis 6.2.0".into(), true)));
        assert_eq!(shown(facts(&[("7.0.15", "6.0.16")], &[])), Some(("Redis 6.0.16".into(), false)));
        assert_eq!(shown(facts(&[("7.0.15", "10.0.0")], &[])), Some(("Redis 10.0.0".into(), true)));
        let valkey = facts(&[("7.0.15", "7.2.4\r\nvalkey_version:8.1.1")], &[]);
        assert_eq!(shown(valkey), Some(("Valkey 8.1.1".into(), true)));
    }

    #[test]
    fn only_always_loses_nothing() {
        let good = |facts: Facts| matches!(facts.persistence(), Fitness::Good(_));
        assert!(good(facts(&[], &[("appendfsync", "always")])));
        assert!(!good(facts(&[], &[("appendfsync", "everysec")])));
        assert!(!good(facts(&[], &[])));
        assert!(!good(facts(&[("aof_enabled:1", "aof_enabled:0")], &[("appendfsync", "always")])));
        let nothing = facts(&[("aof_enabled:1", "aof_enabled:0")], &[("save", "")]).persistence();
        assert!(nothing.words().contains("everything"));
    }

    #[test]
    fn eviction_and_replicas_are_said() {
        let evicts = facts(&[("maxmemory:0", "maxmemory:100"), ("noeviction", "volatile-lru")], &[]);
        assert!(matches!(evicts.eviction(), Fitness::Limited(words) if words.contains("volatile-lru")));
        assert!(matches!(facts(&[("maxmemory:0", "maxmemory:100")], &[]).eviction(), Fitness::Good(_)));
        let copied = facts(&[("connected_slaves:0", "connected_slaves:2")], &[]);
        assert!(matches!(copied.replication(), Fitness::Limited(words) if words.contains("(2 attached)")));
        let replica = Facts { role: Some(Role::Replica), ..facts(&[], &[]) };
        assert!(matches!(replica.replication(), Fitness::Limited(words) if words.contains("is a replica")));
        for ready in [facts(&[], &[]), copied, Facts::default()] {
            let failover = ready.failover();
            assert!(matches!(&failover, Fitness::Limited(words) if words.contains("granted again")));
        }
    }

    #[test]
    fn every_user_is_told_the_role() {
        let answer = |role: &str, protocol: fn(Vec<(Value, Value)>) -> Value| {
            let text = |text: &str| Value::BulkString(text.into());
            Ok(protocol(vec![
                (text("proto"), Value::Int(3)),
                (text("mode"), text("standalone")),
                (text("role"), text(role)),
                (text("modules"), Value::Array(Vec::new())),
            ]))
        };
        let resp2 = |pairs: Vec<(Value, Value)>| {
            Value::Array(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect())
        };
        for protocol in [Value::Map, resp2] {
            assert_eq!(Role::of(answer("master", protocol)), Some(Role::Primary));
            assert_eq!(Role::of(answer("replica", protocol)), Some(Role::Replica));
        }
        assert_eq!(Role::of(Ok(Value::Okay)), None);
        assert_eq!(Role::of(Err(RedisError::from((ErrorKind::Client, "no answer")))), None);
    }

    #[test]
    fn what_was_not_said_is_unknown() {
        let facts = Facts::parse("", &HashMap::new());
        assert_eq!(facts, Facts::default());
        for standing in [facts.persistence(), facts.eviction(), facts.replication()] {
            assert!(matches!(standing, Fitness::Unknown(_)), "{standing:?}");
        }
    }
}
