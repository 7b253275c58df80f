//! What is compared: the library, its drivers' baselines, other libraries' locks, and schemes of texts.

pub(crate) mod baseline;
mod one_lost;
mod ours;
pub(crate) mod peers;

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::Options;
use lock_naive::Scheme;

use self::one_lost::{Lost, OneLost};
use self::ours::Ours;
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
    /// The raw driver with the least that is still such a lock.
    Baseline,
    /// Another library's lock.
    Peer(Peer),
    /// A scheme as texts describe it, with its flaws: the library's client with a driver of that scheme.
    Naive(Scheme),
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::OneDead => "one-dead",
            Kind::OneSilent => "one-silent",
            Kind::Baseline => "baseline",
            Kind::Peer(peer) => peer.name(),
            Kind::Naive(scheme) => scheme.name(),
        }
    }

    /// Connects the subject to the server at `url`.
    pub(crate) async fn connect(self, url: &str) -> Outcome<Box<dyn Subject>> {
        Ok(match self {
            Kind::Ours => Box::new(Ours::connect(url).await?),
            Kind::OneDead => Box::new(OneLost::connect(url, Lost::Dead).await?),
            Kind::OneSilent => Box::new(OneLost::connect(url, Lost::Silent).await?),
            Kind::Baseline => baseline::connect(url).await?,
            Kind::Naive(scheme) => Box::new(Ours::with(scheme.connect(url, Options::default()).await?)),
            Kind::Peer(peer) => peer.connect(url).await?,
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let own = [Kind::Ours, Kind::OneDead, Kind::OneSilent, Kind::Baseline];
        let all = own.into_iter().chain(Scheme::ALL.map(Kind::Naive)).chain(Peer::ALL.map(Kind::Peer));
        all.into_iter()
            .find(|kind| kind.as_str() == text)
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
