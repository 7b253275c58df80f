//! The part of a feed that each kind of server implements.

use std::fmt;

use async_trait::async_trait;

use crate::driver::Wakes;
use crate::name::Name;

/// The source of a feed: one kind of server, which reports releases and revokes.
///
/// The feed makes one call at a time, and drops the connection after an error. It bounds each call but
/// [`next`](Self::next) by the client's patience: then the call's future is dropped, and so is the connection.
#[async_trait]
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// The unit of subscription: a channel, or a stream of everything.
    type Topic: Clone + fmt::Debug + Ord + Send + Sync + 'static;

    /// An open connection. What the server reports while another call is under way must be kept until
    /// [`next`](Self::next) is called.
    type Connection: Send;

    /// Returns which claims the topic is for. A topic that none of them listens to is unsubscribed.
    fn audience(topic: &Self::Topic) -> Audience<'_>;

    /// Opens a connection, without any topic.
    ///
    /// # Errors
    ///
    /// `Refused` if no topic can ever be subscribed from here, as behind a pooler.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: a connection that was not returned is not used.
    async fn open(&self) -> Result<Self::Connection, SourceError>;

    /// Subscribes topics, of which there is at least one. After this call has returned, the server reports all that
    /// happens. A topic may be subscribed already.
    ///
    /// # Errors
    ///
    /// `Refused` if the server refuses one of the topics, and `Elsewhere` if another server reports it. The connection is
    /// then still usable, and the feed subscribes each topic by itself.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: if the feed drops this future, it also drops the connection.
    async fn subscribe(
        &self,
        connection: &mut Self::Connection,
        topics: &[Self::Topic],
    ) -> Result<Missed, SourceError>;

    /// Unsubscribes topics, of which there is at least one. What the server still reports of them wakes no claim.
    ///
    /// # Errors
    ///
    /// Any error means that the connection is broken.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: if the feed drops this future, it also drops the connection.
    async fn unsubscribe(
        &self,
        connection: &mut Self::Connection,
        topics: &[Self::Topic],
    ) -> Result<(), SourceError>;

    /// Waits for what the server reports next.
    ///
    /// # Errors
    ///
    /// Any error means that the connection is broken.
    ///
    /// # Cancel safety
    ///
    /// Must be cancel safe: the feed drops this future and calls it again.
    async fn next(&self, connection: &mut Self::Connection) -> Result<Notice, SourceError>;

    /// Asks the server for a sign of life, and whether the topics still mean the same. Called every five seconds while
    /// a topic is subscribed: a connection can die without any report.
    ///
    /// The default asks nothing. It is right only where `next` notices the silence of the server by itself.
    ///
    /// # Errors
    ///
    /// Any error means that the connection is broken.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: if the feed drops this future, it also drops the connection.
    async fn check(&self, _connection: &mut Self::Connection) -> Result<Missed, SourceError> {
        Ok(Missed::Nothing)
    }

    /// Takes note that the server has confirmed the topic (`Pushed`) or refused it (`Polled`), for
    /// [`Info::wakes`](crate::driver::Info::wakes). Called before the claims are answered.
    fn learned(&self, _topic: &Self::Topic, _wakes: Wakes) {}
}

/// The claims that a topic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience<'a> {
    /// Claims that wait for this name.
    Waiters(&'a Name),
    /// Claims that hold a lock and watch for a revoke.
    Holders,
    /// All of these.
    All,
}

/// One report of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The lock with this name may be free.
    Released(String),
    /// The same. So many clients wait for it, this one included.
    ReleasedAmong(String, u32),
    /// The same. Its last owner had heard so many releases while it waited for it.
    ReleasedAfter(String, u32),
    /// A lock was taken from this owner, which is shown as [`Owner`](crate::Owner) shows itself.
    Revoked(String),
    /// The lock with this name may have gone to another server: this one has ended the topics of its waiters. The feed
    /// subscribes them again, and wakes the waiters.
    Moved(String),
    /// Nothing that concerns a claim of this client.
    Other,
}

/// The possible loss of notifications: whether claims that listened before may have missed something. If so,
/// all of them are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The server has reported all that happened.
    Nothing,
    /// Reports begin now: an earlier one may be missing.
    Possibly,
}

/// Why nothing is reported. The text says it to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// The server refuses it to this client. Waiters then poll.
    Refused(String),
    /// Another server reports the topic. A claim finds that server by its next attempt.
    Elsewhere(String),
    /// The connection can't be opened, or is of no use any more. Another one may do.
    Broken(String),
}
