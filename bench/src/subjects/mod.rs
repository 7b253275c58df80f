//! The subjects: the library, its drivers' baselines, other libraries' locks, and schemes of texts.

pub(crate) mod baseline;
pub(crate) mod ours;
pub(crate) mod peers;

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::Options;
use lock_naive::Scheme;

pub(crate) use self::ours::Lost;
use self::peers::Peer;
use crate::Outcome;

/// The ttl of every subject: the library's default.
pub(crate) const TTL: Duration = lock_core::DEFAULT_TTL;

/// A subject is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The library through its public API.
    Ours,
    /// The library without the last of several servers.
    Without(Lost),
    /// The raw driver with the least that is still such a lock.
    Baseline,
    Peer(Peer),
    /// A scheme as texts describe it, with its flaws: the library's client with a driver of that scheme.
    Naive(Scheme),
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Ours => "ours",
            Kind::Without(Lost::Dead) => "one-dead",
            Kind::Without(Lost::Silent) => "one-silent",
            Kind::Baseline => "baseline",
            Kind::Peer(peer) => peer.name,
            Kind::Naive(scheme) => scheme.name(),
        }
    }

    pub(crate) async fn connect(self, url: &str) -> Outcome<Box<dyn Subject>> {
        match self {
            Kind::Ours => Ok(ours::subject(onelock::connect(url).await?)),
            Kind::Without(lost) => ours::without_one(url, lost).await,
            Kind::Baseline => baseline::connect(url).await,
            Kind::Naive(scheme) => Ok(ours::subject(scheme.connect(url, Options::default()).await?)),
            Kind::Peer(peer) => peer.connect(url).await,
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        let own = [Kind::Ours, Kind::Without(Lost::Dead), Kind::Without(Lost::Silent), Kind::Baseline];
        let all = own.into_iter().chain(Scheme::ALL.map(Kind::Naive)).chain(Peer::ALL.map(Kind::Peer));
        all.into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| format!("there is no subject {text:?}"))
    }
}

/// One connection of a subject. Its workers and sides share it.
#[async_trait]
pub(crate) trait Subject: Send + Sync {
    /// Returns one that takes and releases `name`, again and again, and need not wait for others.
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Side>> {
        self.side(name).await
    }

    /// Returns one that waits for others.
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>>;
}

/// A task, or a process, with one name.
#[async_trait]
pub(crate) trait Side: Send {
    /// Waits until it has the lock.
    async fn acquire(&mut self) -> Outcome<()>;

    /// Releases the lock, if it has it.
    async fn release(&mut self) -> Outcome<()>;

    async fn cycle(&mut self) -> Outcome<()> {
        self.acquire().await?;
        self.release().await
    }
}

/// A subject whose sides are made without a request.
struct Each<F>(F);

fn each<S: Side + 'static>(side: impl Fn(&str) -> Outcome<S> + Send + Sync + 'static) -> Box<dyn Subject> {
    Box::new(Each(side))
}

#[async_trait]
impl<S: Side + 'static, F: Fn(&str) -> Outcome<S> + Send + Sync> Subject for Each<F> {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new((self.0)(name)?))
    }
}
