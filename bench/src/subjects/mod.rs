//! What is compared: the library, its driver's floors, its peers, and schemes of texts.

mod floor;
mod naive;
mod no_token;
mod one_lost;
mod ours;
pub(crate) mod peers;

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use lock_naive::Scheme;

pub(crate) use self::floor::{Preparation, alone, prepare};

use self::floor::postgres::Notifies;
use self::floor::redlock::Enough;
use self::one_lost::{Lost, OneLost};
use self::peers::Peer;
use crate::Outcome;

/// The ttl of every subject: the library's default.
pub(crate) const TTL: Duration = lock_core::DEFAULT_TTL;

/// The subjects: what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The library through its public API.
    Ours,
    /// The library, which can't connect to the last of several servers.
    OneDead,
    /// The library, to which the last of several servers answers nothing.
    OneSilent,
    /// The raw driver sending what the library sends.
    Floor,
    /// The floor on several servers, except that a majority's votes are enough, whatever their tokens are.
    OneRound,
    /// The raw driver locking without a token.
    NoToken,
    /// Another library's lock.
    Peer(Peer),
    /// The floor on PostgreSQL, except that it never notifies a client.
    NeverNotifies,
    /// The same, except that it notifies at each release.
    AlwaysNotifies,
    /// A scheme as texts describe it, with its flaws.
    Naive(Scheme),
}

impl Kind {
    /// All but the peers.
    const OWN: [Kind; 14] = [
        Kind::Ours,
        Kind::OneDead,
        Kind::OneSilent,
        Kind::Floor,
        Kind::OneRound,
        Kind::NoToken,
        Kind::NeverNotifies,
        Kind::AlwaysNotifies,
        Kind::Naive(Scheme::UniqueIndex),
        Kind::Naive(Scheme::FindAndModify),
        Kind::Naive(Scheme::Setnx),
        Kind::Naive(Scheme::SetNxEx),
        Kind::Naive(Scheme::Redlock),
        Kind::Naive(Scheme::FairQueue),
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::OneDead => "one-dead",
            Kind::OneSilent => "one-silent",
            Kind::Floor => "floor",
            Kind::OneRound => "one-round",
            Kind::NoToken => "no-token",
            Kind::Peer(peer) => peer.name(),
            Kind::NeverNotifies => "never-notifies",
            Kind::AlwaysNotifies => "always-notifies",
            Kind::Naive(scheme) => scheme.name(),
        }
    }

    /// Connects the subject to the server at `url`.
    pub(crate) async fn connect(self, url: &str) -> Outcome<Box<dyn Subject>> {
        Ok(match self {
            Kind::Ours => Box::new(ours::Ours::connect(url).await?),
            Kind::OneDead => Box::new(OneLost::connect(url, Lost::Dead).await?),
            Kind::OneSilent => Box::new(OneLost::connect(url, Lost::Silent).await?),
            Kind::Floor => floor::connect(url).await?,
            Kind::OneRound => Box::new(floor::redlock::Floor::connect(url, Enough::Votes).await?),
            Kind::NeverNotifies => Box::new(floor::postgres::Floor::connect(url, Notifies::Never).await?),
            Kind::AlwaysNotifies => Box::new(floor::postgres::Floor::connect(url, Notifies::Always).await?),
            Kind::NoToken => Box::new(no_token::NoToken::connect(url).await?),
            Kind::Naive(scheme) => Box::new(naive::connect(scheme, url).await?),
            Kind::Peer(peer) => peer.connect(url).await?,
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let own = Kind::OWN.into_iter().find(|kind| kind.as_str() == text);
        own.or_else(|| Peer::named(text).map(Kind::Peer))
            .ok_or_else(|| format!("there is no subject {text:?}"))
    }
}

/// One connection of a subject. Its workers and sides share it.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    /// Returns a worker that takes and releases `name`, again and again. By default its cycle is what a side does.
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(BothInTurn(self.side(name).await?)))
    }

    /// Takes and releases a name that was not used before. By default it does what a worker does.
    async fn use_once(&self, name: &str) -> Outcome<()> {
        self.worker(name).await?.cycle().await
    }

    /// Returns one side of a hand-over of `name`.
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>>;
}

/// What a task does with one name.
#[async_trait]
pub(crate) trait Worker: Send {
    /// Acquires, waiting if need be, and releases.
    async fn cycle(&mut self) -> Outcome<()>;
}

/// A worker that acquires and releases as one side of a hand-over does.
struct BothInTurn(Box<dyn Side>);

#[async_trait]
impl Worker for BothInTurn {
    async fn cycle(&mut self) -> Outcome<()> {
        self.0.acquire().await?;
        self.0.release().await
    }
}

/// What a process does with one name.
#[async_trait]
pub(crate) trait Side: Send {
    /// Waits until it has the lock.
    async fn acquire(&mut self) -> Outcome<()>;

    /// Releases the lock, if it has it.
    async fn release(&mut self) -> Outcome<()>;
}
