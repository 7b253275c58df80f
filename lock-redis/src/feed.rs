//! The server's reports of releases and revokes: messages on channels, over one subscription connection.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::Name;
use lock_core::driver::{Context, Wakes};
use lock_core::toolkit::{Audience, Missed, Notice, SharedConnection, Source, SourceError};
use redis::RedisError;

use crate::delivery::Delivery;
use crate::errors;
use crate::finder::Finder;
use crate::follow::{Followed, Follower, broken};
use crate::layout::CLIENT_DIGITS;
use crate::link::Connector;
use crate::message;
use crate::profile::Profile;
use crate::pushes::{Push, Pushes, leads_elsewhere};
use crate::value::OWNER_DIGITS;

/// The name of a channel on the server.
type Channel = Arc<[u8]>;

/// A channel, and what its messages are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    /// The lock with this name may be free.
    Releases { name: Name, channel: Channel },
    /// The lock that was revoked, of all locks with the client's prefix.
    Revokes { channel: Channel },
}

impl Topic {
    pub(crate) fn releases(name: &Name, channel: &[u8]) -> Topic {
        Topic::Releases { name: name.clone(), channel: channel.into() }
    }

    pub(crate) fn revokes(channel: &[u8]) -> Topic {
        Topic::Revokes { channel: channel.into() }
    }

    fn channel(&self) -> &Channel {
        match self {
            Topic::Releases { channel, .. } | Topic::Revokes { channel } => channel,
        }
    }

    /// Returns what follows from the end of the subscription.
    fn ended(&self) -> Notice {
        match self {
            Topic::Releases { name, .. } => Notice::Moved(name.as_str().to_owned()),
            Topic::Revokes { .. } => Notice::Other,
        }
    }

    /// Returns the channel, and how its messages come. `releases` is how the server announces releases. Revokes are
    /// rare, and their channel is that of many locks in many slots: each member passes them on to all others.
    fn delivered(&self, releases: Delivery) -> (Delivery, &[u8]) {
        match self {
            Topic::Releases { channel, .. } => (releases, channel),
            Topic::Revokes { channel } => (Delivery::Global, channel),
        }
    }

    /// `client` are the digits of this client.
    fn notice(&self, payload: &[u8], client: &str) -> Notice {
        match self {
            Topic::Releases { name, .. } => match Turn::parse(payload) {
                Some(Turn { client: theirs, owner }) if theirs == client => {
                    Notice::Released(owner.to_owned())
                }
                Some(_) => Notice::Other,
                // Not about one waiter.
                None => match message::waiters(payload) {
                    Some(waiters) => Notice::ReleasedAmong(name.as_str().to_owned(), waiters),
                    None => Notice::Released(name.as_str().to_owned()),
                },
            },
            Topic::Revokes { .. } => match std::str::from_utf8(payload) {
                Ok(owner) => Notice::Revoked(owner.to_owned()),
                Err(_) => Notice::Other,
            },
        }
    }
}

/// The turn that a fair lock's release announces.
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
    pushes: Pushes,
    topics: HashMap<Channel, Topic>,
    /// `None`: there is only one server.
    followed: Option<Followed>,
}

impl Channels {
    pub(crate) fn new(
        finder: Arc<Finder>,
        links: Arc<SharedConnection<Connector>>,
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
        let (pushes, followed) = self.follower.open().await?;
        Ok(Connection { pushes, topics: HashMap::new(), followed })
    }

    async fn subscribe(&self, connection: &mut Connection, topics: &[Topic]) -> Result<Missed, SourceError> {
        let Connection { pushes, followed, .. } = connection;
        let channels = delivered(topics, pushes.delivery);
        let subscribed = self.follower.unless_left(followed.as_mut(), pushes.subscribe(&channels)).await?;
        subscribed.map_err(not_subscribed)?;
        connection.topics.extend(topics.iter().map(|topic| (topic.channel().clone(), topic.clone())));
        Ok(Missed::Nothing)
    }

    async fn unsubscribe(&self, connection: &mut Connection, topics: &[Topic]) -> Result<(), SourceError> {
        topics.iter().for_each(|topic| _ = connection.topics.remove(topic.channel()));
        let Connection { pushes, followed, .. } = connection;
        let channels = delivered(topics, pushes.delivery);
        self.follower.unless_left(followed.as_mut(), pushes.unsubscribe(&channels)).await?.map_err(broken)
    }

    async fn next(&self, connection: &mut Connection) -> Result<Notice, SourceError> {
        let Connection { pushes, topics, followed } = connection;
        let Some(push) = self.follower.unless_left(followed.as_mut(), pushes.next()).await? else {
            return Err(SourceError::Broken("the subscription connection broke".to_owned()));
        };
        Ok(match &push {
            Push::Message { channel, payload } => {
                topics.get(&**channel).map(|topic| topic.notice(payload, &self.client_digits))
            }
            Push::Ended { channel } => topics.remove(&**channel).map(|topic| topic.ended()),
        }
        .unwrap_or(Notice::Other))
    }

    async fn check(&self, connection: &mut Connection) -> Result<Missed, SourceError> {
        let Connection { pushes, followed, .. } = connection;
        match self.follower.unless_left(followed.as_mut(), pushes.ping()).await? {
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

/// Returns the channels of these topics, and how their messages come.
fn delivered(topics: &[Topic], releases: Delivery) -> Vec<(Delivery, &[u8])> {
    topics.iter().map(|topic| topic.delivered(releases)).collect()
}

fn not_subscribed(error: RedisError) -> SourceError {
    match errors::is_refusal(&error) {
        true => SourceError::Refused(REFUSED.to_owned()),
        false if leads_elsewhere(&error) => {
            SourceError::Elsewhere(format!("the lock is at another member: {error}"))
        }
        false => broken(error),
    }
}

const REFUSED: &str = "the server's access rules forbid this user to subscribe to the lock's channel; waiters ask \
    the server again and again instead";
