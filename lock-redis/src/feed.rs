//! How the server reports releases and revokes: as messages on channels, over one subscription connection.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::Name;
use lock_core::driver::{Audience, Context, Missed, Notice, Slot, Source, SourceError, Wakes};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisError, Value};

use crate::errors;
use crate::finder::Finder;
use crate::follow::{Followed, Follower, broken};
use crate::layout::CLIENT_DIGITS;
use crate::link::Connector;
use crate::profile::Profile;
use crate::value::OWNER_DIGITS;

/// The name of a channel on the server.
type Channel = Arc<[u8]>;

/// A channel, and what its messages are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The lock with this name may be free.
    Releases { name: Name, channel: Channel },
    /// Which lock was revoked, of all locks with the client's prefix.
    Revokes { channel: Channel },
}

impl Topic {
    pub(crate) fn releases(name: &Name, channel: &[u8]) -> Topic {
        Topic::Releases { name: name.clone(), channel: channel.into() }
    }

    pub(crate) fn revokes(channel: &[u8]) -> Topic {
        Topic::Revokes { channel: channel.into() }
    }

    pub(crate) fn channel(&self) -> &[u8] {
        match self {
            Topic::Releases { channel, .. } | Topic::Revokes { channel } => channel,
        }
    }

    /// `client` are the digits of this client.
    fn notice(&self, message: &Msg, client: &str) -> Notice {
        match self {
            Topic::Releases { name, .. } => match Turn::parse(message.get_payload_bytes()) {
                Some(Turn { client: theirs, owner }) if theirs == client => {
                    Notice::Released(owner.to_owned())
                }
                Some(_) => Notice::Other,
                // Not about one waiter.
                None => Notice::Released(name.as_str().to_owned()),
            },
            Topic::Revokes { .. } => match std::str::from_utf8(message.get_payload_bytes()) {
                Ok(owner) => Notice::Revoked(owner.to_owned()),
                Err(_) => Notice::Other,
            },
        }
    }
}

/// What a fair lock's release says: whose turn it is.
struct Turn<'a> {
    client: &'a str,
    owner: &'a str,
}

impl Turn<'_> {
    fn parse(message: &[u8]) -> Option<Turn<'_>> {
        let digits = std::str::from_utf8(message).ok()?;
        let is_turn = digits.len() == CLIENT_DIGITS + OWNER_DIGITS
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let (client, owner) = digits.split_at_checked(CLIENT_DIGITS).filter(|_| is_turn)?;
        Some(Turn { client, owner })
    }
}

/// The channels of the server on which locks are taken.
#[derive(Debug)]
pub(crate) struct Channels {
    follower: Follower,
    profile: Arc<Profile>,
    client_digits: Arc<str>,
}

/// A connection, and the channels that are subscribed on it.
pub(crate) struct Connection {
    sink: PubSubSink,
    messages: PubSubStream,
    topics: HashMap<Channel, Topic>,
    /// `None`: there is only one server.
    followed: Option<Followed>,
}

impl Channels {
    pub(crate) fn new(
        finder: Arc<Finder>,
        links: Arc<Slot<Connector>>,
        profile: Arc<Profile>,
        client_digits: Arc<str>,
        context: &Context,
    ) -> Channels {
        Channels { follower: Follower::new(finder, links, context), profile, client_digits }
    }
}

#[async_trait]
impl Source for Channels {
    type Topic = Topic;
    type Connection = Connection;

    fn audience(topic: &Topic) -> Audience<'_> {
        match topic {
            Topic::Releases { name, .. } => Audience::Waiters(name),
            Topic::Revokes { .. } => Audience::Holders,
        }
    }

    async fn open(&self) -> Result<Connection, SourceError> {
        let (connection, followed) = self.follower.open().await?;
        let (sink, messages) = connection.split();
        Ok(Connection { sink, messages, topics: HashMap::new(), followed })
    }

    async fn subscribe(&self, connection: &mut Connection, topics: &[Topic]) -> Result<Missed, SourceError> {
        let channels: Vec<&[u8]> = topics.iter().map(Topic::channel).collect();
        let Connection { sink, followed, .. } = connection;
        let subscribed = self.follower.unless_left(followed.as_mut(), sink.subscribe(channels)).await?;
        subscribed.map_err(refused_or_broken)?;
        connection.topics.extend(topics.iter().map(|topic| (topic.channel().into(), topic.clone())));
        Ok(Missed::Nothing)
    }

    async fn unsubscribe(&self, connection: &mut Connection, topics: &[Topic]) -> Result<(), SourceError> {
        let channels: Vec<&[u8]> = topics.iter().map(Topic::channel).collect();
        channels.iter().for_each(|channel| _ = connection.topics.remove(*channel));
        let Connection { sink, followed, .. } = connection;
        self.follower.unless_left(followed.as_mut(), sink.unsubscribe(channels)).await?.map_err(broken)
    }

    async fn next(&self, connection: &mut Connection) -> Result<Notice, SourceError> {
        let Connection { messages, followed, .. } = connection;
        let Some(message) = self.follower.unless_left(followed.as_mut(), messages.next()).await? else {
            return Err(SourceError::Broken("the subscription connection broke".to_owned()));
        };
        let topic = connection.topics.get(message.get_channel_name().as_bytes());
        Ok(topic.map_or(Notice::Other, |topic| topic.notice(&message, &self.client_digits)))
    }

    async fn check(&self, connection: &mut Connection) -> Result<Missed, SourceError> {
        let Connection { sink, followed, .. } = connection;
        match self.follower.unless_left(followed.as_mut(), sink.ping::<Value>()).await? {
            // Another error is an answer all the same: the user may not ping.
            Err(e) if errors::ends_connection(&e) => return Err(broken(e)),
            _ => {}
        }
        if let Some(followed) = followed {
            self.follower.check(followed).await?;
        }
        Ok(Missed::Nothing)
    }

    /// Only the channel of a name shows how waiters learn of a release, not the channel of revokes.
    fn learned(&self, topic: &Topic, wakes: Wakes) {
        if let Topic::Releases { .. } = topic {
            self.profile.learn_wakes(wakes);
        }
    }
}

fn refused_or_broken(error: RedisError) -> SourceError {
    match errors::is_refusal(&error) {
        true => SourceError::Refused(REFUSED.to_owned()),
        false => broken(error),
    }
}

const REFUSED: &str = "the server's access rules forbid this user to subscribe to the lock's channel; waiters ask \
    the server again and again instead";
