//! Redis Sentinel: who the primary is, and when another one takes its place.
//!
//! An address that a sentinel tells is a place to look, not a fact: it may be out of date. A message about a failover
//! is a reason to look again.

use futures_util::StreamExt;
use futures_util::future::join_all;
use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use lock_core::{Clock, Error, Result};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use crate::finder::{Miss, address, open};
use crate::link::check_tls;
use crate::servers::Watched;
use crate::{errors, race};

/// The sentinels of one primary.
#[derive(Debug)]
pub(crate) struct Sentinels {
    clients: Vec<Client>,
    watched: Watched,
}

/// The reports of one sentinel about failovers.
pub(crate) struct Switches {
    sink: PubSubSink,
    messages: PubSubStream,
    service: String,
}

/// The sentinel that leads a failover knows the new primary when that is promoted, and tells of the switch only when
/// the other replicas follow it. The other sentinels tell of the switch as soon as they learn of it.
const CHANNELS: [&str; 2] = ["+switch-master", "+promoted-slave"];

impl Sentinels {
    pub(crate) fn new(watched: Watched) -> Result<Sentinels> {
        let clients = watched.sentinels.iter().cloned().map(open).collect::<Result<_>>()?;
        Ok(Sentinels { clients, watched })
    }

    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn address(&self, which: usize) -> String {
        address(&self.clients[which])
    }

    /// Asks one sentinel for the primary. Has no time limit of its own.
    pub(crate) async fn ask(&self, which: usize) -> std::result::Result<Client, Miss> {
        check_tls(&self.clients[which]).map_err(Miss::of)?;
        let told = ask(&self.clients[which], &self.watched.service).await.map_err(sentinel_error);
        match told.map_err(Miss::of)? {
            Some((host, port)) => open(self.watched.server_at(host, port)).map_err(Miss::of),
            None => Err(Miss::of(Error::rejected(format!(
                "it watches no primary with the name \"{}\"; the name is the path of the URL",
                self.watched.service
            )))),
        }
    }

    /// Returns the primary that this sentinel names as soon as it names another than `present`.
    pub(crate) async fn names_another(&self, which: usize, present: &Client, clock: &Clock) -> Client {
        loop {
            clock.sleep(race::LOOK_AGAIN).await;
            match self.ask(which).await {
                Ok(primary) if address(&primary) != address(present) => return primary,
                _ => {}
            }
        }
    }

    /// Returns the primary's address as the first sentinel that answers tells it.
    pub(crate) async fn primary(&self, call: &Call) -> Option<String> {
        let all: Vec<usize> = (0..self.count()).collect();
        let (_, primary) = race::first(call, &all, |which| self.ask(which)).await.ok()?;
        Some(address(&primary))
    }

    /// Listens to the first sentinel that confirms it; `None` if none does.
    pub(crate) async fn switches(&self, call: &Call) -> Option<Switches> {
        let all: Vec<usize> = (0..self.count()).collect();
        let listen = |which: usize| async move {
            let (mut sink, messages) = self.clients[which].get_async_pubsub().await?.split();
            sink.subscribe(&CHANNELS[..]).await?;
            RedisResult::Ok(Switches { sink, messages, service: self.watched.service.clone() })
        };
        race::first(call, &all, listen).await.ok().map(|(_, switches)| switches)
    }

    /// Asks each sentinel, for `lock check`.
    pub(crate) async fn finding(&self, call: &Call) -> Finding {
        let asked = join_all((0..self.count()).map(|which| call.within(self.ask(which)))).await;
        let (mut told, mut silent) = (Vec::new(), Vec::new());
        for (which, answer) in asked.into_iter().enumerate() {
            match answer {
                Some(Ok(primary)) => told.push(address(&primary)),
                Some(Err(miss)) => silent.push(format!("{}: {}", self.address(which), miss.error.message())),
                None => silent.push(format!("{}: no answer", self.address(which))),
            }
        }
        told.dedup();
        let (level, message) = match (&told[..], &silent[..]) {
            ([primary], []) => (Level::Good, format!("all {} name {primary}", self.count())),
            ([_], _) => (Level::Warning, format!("some can't be asked; {}", silent.join("; "))),
            ([], _) => (Level::Bad, format!("none can be asked; {}", silent.join("; "))),
            (several, _) => {
                (Level::Warning, format!("they name different primaries: {}", several.join(", ")))
            }
        };
        Finding::new("sentinels", level, message)
    }
}

impl Switches {
    /// Waits for a failover to another server than the one at `present`. An error means that the sentinel is gone.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self, present: &str) -> Result<(), SentinelGone> {
        while let Some(message) = self.messages.next().await {
            let text = String::from_utf8_lossy(message.get_payload_bytes());
            let promoted = promoted(message.get_channel_name(), &text, &self.service);
            if promoted.is_some_and(|promoted| promoted != present) {
                return Ok(());
            }
        }
        Err(SentinelGone)
    }

    /// Asks the sentinel for a sign of life.
    pub(crate) async fn check(&mut self) -> Result<(), SentinelGone> {
        match self.sink.ping::<Value>().await {
            Err(e) if errors::ends_connection(&e) => Err(SentinelGone),
            _ => Ok(()),
        }
    }
}

/// The connection to a sentinel broke.
#[derive(Debug)]
pub(crate) struct SentinelGone;

async fn ask(sentinel: &Client, service: &str) -> RedisResult<Option<(String, u16)>> {
    // The caller has a time limit, on the client's clock.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service).query_async(&mut connection).await
}

fn sentinel_error(error: RedisError) -> Error {
    let is_login = matches!(error.kind(), ErrorKind::AuthenticationFailed)
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"));
    if is_login {
        let message = "the sentinel refused the user or the password; its own are the URL's sentinel_user and \
                       sentinel_password, and those before the hosts are the servers'";
        return Error::rejected(message).with_source(error);
    }
    let is_no_command = error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError);
    if is_no_command && error.detail().is_some_and(|detail| detail.contains("unknown command")) {
        return Error::rejected("it is no sentinel; the URL of a server begins with redis://")
            .with_source(error);
    }
    errors::connecting(error)
}

/// Returns the address of the server that was promoted to the primary of this name, if the message is about one.
fn promoted(channel: &str, text: &str, service: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let (name, host, port) = match (channel, &words[..]) {
        ("+switch-master", [name, _, _, host, port]) => (name, host, port),
        ("+promoted-slave", ["slave", _, host, port, "@", name, ..]) => (name, host, port),
        _ => return None,
    };
    (*name == service).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_told_by_two_messages() {
        let switch = "mymaster 10.0.0.1 6379 10.0.0.2 6380";
        assert_eq!(promoted("+switch-master", switch, "mymaster").as_deref(), Some("10.0.0.2:6380"));
        let promotion = "slave 10.0.0.2:6380 10.0.0.2 6380 @ mymaster 10.0.0.1 6379";
        assert_eq!(promoted("+promoted-slave", promotion, "mymaster").as_deref(), Some("10.0.0.2:6380"));
        for (channel, text) in [
            ("+switch-master", promotion),
            ("+promoted-slave", switch),
            ("+sdown", switch),
            ("+switch-master", ""),
        ] {
            assert_eq!(promoted(channel, text, "mymaster"), None, "{channel} {text}");
        }
        assert_eq!(promoted("+switch-master", switch, "other"), None);
        assert_eq!(promoted("+promoted-slave", promotion, "other"), None);
    }
}
