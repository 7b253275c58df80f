//! The backend of a [`RegisterServer`]: the core's [`RegisterDriver`], and what it needs of the server.
//!
//! It shows everything that a backend of this family has to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Context, Fencing, Lease, Wakes};
use lock_core::toolkit::{
    Audience, Call, Connect, Feed, Missed, Notice, Prefix, Read, RegisterDriver, Registers, Replaced, Row,
    Source, SourceError, Stored, Subscription,
};
use lock_core::{Info, Name, Owner, Result};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::SHORTEST_TTL;
use crate::server::Key;
use crate::server::register::{Answer, KEPT, Notification, RegisterServer, Request as Ask};
use crate::time::ServerTime;
use crate::wire::{Pushed, Reply, Wire, unexpected};

/// The longest ttl: half of the time for which values are kept.
const LONGEST_TTL: Duration = Duration::from_secs(KEPT.as_secs() / 2);
/// The time by which the clock may be set back without a token falling. A value is removed when its stamp is older than
/// twice that.
const CLOCK_STEP: Duration = Duration::from_secs(KEPT.as_secs() / 2);

/// The server's time, as answers to other questions report it to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// Each answer has it.
    Time,
    /// No answer has it, not even the stamp of a write, as on NATS. The driver estimates it, and asks.
    Nothing,
}

/// Creates a driver of the server at the other end of `wire`, called `server`. Its identity is the same for all drivers
/// of that server.
pub fn driver(
    wire: Arc<dyn Wire<RegisterServer>>,
    server: &str,
    prefix: Prefix,
    identity: Option<String>,
    tells: Tells,
    context: Context,
) -> RegisterDriver<Values> {
    let clock = context.clock.clone();
    let feed = Feed::new(Writes::new(wire.clone(), prefix.clone()), context);
    let mut info = info(server);
    info.identity = identity;
    RegisterDriver::new(Values { wire, prefix, info: Arc::new(info), tells, feed }, clock)
}

/// The values of a [`RegisterServer`].
#[derive(Debug)]
pub struct Values {
    wire: Arc<dyn Wire<RegisterServer>>,
    prefix: Prefix,
    info: Arc<Info>,
    tells: Tells,
    feed: Feed<Writes>,
}

/// The wire is the connection, and is always there.
#[async_trait]
impl Connect for Values {
    type Connection = ();

    async fn connect(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    fn is_usable(&self, _connection: &()) -> bool {
        true
    }
}

#[async_trait]
impl Registers for Values {
    type Revision = u64;

    /// Stamps are exact.
    const RESOLUTION: Duration = Duration::ZERO;

    const EPOCH: Option<i64> = Some(0);

    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn key(&self, name: &Name) -> String {
        self.prefix.key(name)
    }

    async fn read(&self, _: &(), key: &str) -> Result<Read<u64>> {
        let Reply { now, answer } = self.wire.ask(Ask::Get { key: key.into() }).await;
        let Answer::Last(last) = answer else { return Err(unexpected(&answer)) };
        let last = last.map(|last| Stored::new(last.value.to_vec(), last.revision, micros(last.stamp)));
        let read = Read::new(last);
        Ok(match self.tells {
            Tells::Time => read.at(micros(now)),
            Tells::Nothing => read,
        })
    }

    async fn replace(
        &self,
        _: &(),
        key: &str,
        expected: Option<&u64>,
        value: &[u8],
    ) -> Result<Replaced<u64>> {
        let put = Ask::Put { key: key.into(), expected: expected.copied(), value: value.into() };
        let Reply { now, answer } = self.wire.ask(put).await;
        match answer {
            Answer::Applied { revision } => {
                let stamp = (self.tells == Tells::Time).then(|| micros(now));
                Ok(Replaced::Applied { revision, stamp })
            }
            Answer::Refused => Ok(Replaced::Refused),
            other => Err(unexpected(&other)),
        }
    }

    async fn time(&self, _: &()) -> Result<i64> {
        Ok(micros(self.wire.ask(Ask::Time).await.now))
    }

    async fn listen(&self, name: &Name, call: &Call) -> Result<Subscription> {
        self.feed.listen(name, Topic::Key(name.clone()), call).await
    }

    async fn watch(&self, owner: Owner, call: &Call) -> Result<Subscription> {
        self.feed.watch(owner, Topic::Revokes, call).await
    }

    /// Watchers of a key see its new value. A revoke is published, too, for holders, which watch no key.
    async fn tell(&self, _: &(), notice: &Notice) -> Result<()> {
        if let Notice::Revoked(owner) = notice {
            self.wire.tell(Ask::Publish { text: owner.as_str().into() });
        }
        Ok(())
    }
}

fn micros(time: ServerTime) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn info(server: &str) -> Info {
    let fencing =
        Fencing::WhileDataIsKept { clock_step: CLOCK_STEP, kept: "as long as this process".to_owned() };
    let mut info = Info::new("memory", server, fencing, Lease::Lock, SHORTEST_TTL..=LONGEST_TTL);
    info.wakes = Wakes::Pushed;
    info.clock = "the process's own, which is not set from outside";
    info.data_loss =
        "everything is lost with the process, holders included; a new process's tokens are higher than the \
         old one's unless the machine's clock was set back in between"
            .to_owned();
    info.requests_per_hand_over = 3;
    info
}

/// The writes that the server reports, as the source of wake-ups.
struct Writes {
    wire: Arc<dyn Wire<RegisterServer>>,
    prefix: Prefix,
    /// Where the present connection of the feed receives what is pushed.
    inbox: Arc<Mutex<Option<Inbox>>>,
    /// The serial of the last `Watch`.
    serial: AtomicU64,
}

type Inbox = UnboundedSender<Pushed<Notification>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    /// The key of this lock.
    Key(Name),
    /// All revokes.
    Revokes,
}

impl Writes {
    fn new(wire: Arc<dyn Wire<RegisterServer>>, prefix: Prefix) -> Writes {
        let inbox: Arc<Mutex<Option<Inbox>>> = Arc::default();
        let received = inbox.clone();
        wire.receive(Box::new(move |pushed| {
            // Nothing that can panic runs under this lock.
            if let Some(inbox) = &*received.lock().unwrap_or_else(PoisonError::into_inner) {
                inbox.send(pushed).ok();
            }
        }));
        Writes { wire, prefix, inbox, serial: AtomicU64::new(0) }
    }

    fn key(&self, name: &Name) -> Key {
        self.prefix.key(name).into()
    }
}

impl std::fmt::Debug for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writes").field("wire", &self.wire).finish_non_exhaustive()
    }
}

#[async_trait]
impl Source for Writes {
    type Topic = Topic;
    type Connection = UnboundedReceiver<Pushed<Notification>>;

    fn audience(topic: &Topic) -> Audience<'_> {
        match topic {
            Topic::Key(name) => Audience::Waiters(name),
            Topic::Revokes => Audience::Holders,
        }
    }

    async fn open(&self) -> Result<UnboundedReceiver<Pushed<Notification>>, SourceError> {
        let (inbox, pushed) = mpsc::unbounded_channel();
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox);
        Ok(pushed)
    }

    async fn subscribe(
        &self,
        _: &mut UnboundedReceiver<Pushed<Notification>>,
        topics: &[Topic],
    ) -> Result<Missed, SourceError> {
        for topic in topics {
            let serial = self.serial.fetch_add(1, Ordering::SeqCst) + 1;
            self.wire
                .ask(match topic {
                    Topic::Key(name) => Ask::Watch { key: self.key(name), serial },
                    Topic::Revokes => Ask::Subscribe,
                })
                .await;
        }
        Ok(Missed::Nothing)
    }

    async fn unsubscribe(
        &self,
        _: &mut UnboundedReceiver<Pushed<Notification>>,
        topics: &[Topic],
    ) -> Result<(), SourceError> {
        let serial = self.serial.load(Ordering::SeqCst);
        for topic in topics {
            if let Topic::Key(name) = topic {
                self.wire.ask(Ask::Unwatch { key: self.key(name), serial }).await;
            }
        }
        Ok(())
    }

    async fn next(
        &self,
        pushed: &mut UnboundedReceiver<Pushed<Notification>>,
    ) -> Result<Notice, SourceError> {
        let broken = || SourceError::Broken("messages of the server may have been lost".to_owned());
        match pushed.recv().await.ok_or_else(broken)? {
            Pushed::Gap => Err(broken()),
            Pushed::Push(Notification::Published(owner)) => Ok(Notice::Revoked(owner.to_string())),
            Pushed::Push(Notification::Written(key, value)) => {
                // The server knows our keys from us, so they begin with our prefix.
                let name = self.prefix.strip(&key).and_then(|name| Name::new(name).ok());
                Ok(name.map_or(Notice::Other, |name| Row::notice(&name, &value)))
            }
        }
    }
}
