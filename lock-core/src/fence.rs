//! The resource's side of a fencing token: the check.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::token::FencingToken;

/// Guards one resource in this process: accepts a token that is not lower than the highest one it has seen.
///
/// A holder that was paused beyond its lease comes back with token 33, after its successor has written with token 34:
/// 33 is refused. The same token is accepted any number of times, because a holder may write more than once.
///
/// For a resource behind a server, the check has to be a part of the write itself (in Redis by `onelock::redis::FencedWrite`, in a database by `onelock::postgres::Fence` and the like).
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Fence, FencingToken};
/// let fence = Fence::new();
/// let (old, new) = (FencingToken::new(33).unwrap(), FencingToken::new(34).unwrap());
/// assert!(fence.accept(old).is_ok());
/// assert!(fence.accept(new).is_ok());
/// assert_eq!(fence.accept(old).unwrap_err().highest.get(), 34);
/// ```
#[derive(Debug, Default)]
pub struct Fence(AtomicU64);

/// The error for a refused token.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Fence, FencingToken};
///
/// let fence = Fence::new();
/// let [old, new] = [33, 34].map(|token| FencingToken::new(token).expect("not zero"));
/// fence.accept(new).unwrap();
/// let stale = fence.accept(old).unwrap_err();
/// assert_eq!((stale.offered, stale.highest), (old, new));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stale {
    /// The token that was offered.
    pub offered: FencingToken,
    /// The highest one that the resource has seen.
    pub highest: FencingToken,
}

impl Fence {
    /// Makes a fence that has seen no token yet.
    pub const fn new() -> Fence {
        Fence(AtomicU64::new(0))
    }

    /// Accepts `token` if no higher one has been seen.
    ///
    /// # Errors
    ///
    /// [`Stale`], with the highest token seen, if `token` is lower than that.
    pub fn accept(&self, token: FencingToken) -> Result<(), Stale> {
        let seen = self.0.fetch_max(token.get(), Ordering::AcqRel);
        match FencingToken::new(seen) {
            Some(highest) if highest > token => Err(Stale::new(token, highest)),
            _ => Ok(()),
        }
    }
}

impl Stale {
    /// Refuses `offered`, because the resource has seen `highest`. Meant for a fence at a resource behind a server.
    pub fn new(offered: FencingToken, highest: FencingToken) -> Stale {
        Stale { offered, highest }
    }
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stale { offered, highest } = self;
        write!(
            f,
            "token {offered} is stale: the resource has seen {highest}, so another holder has come after this one"
        )
    }
}

impl std::error::Error for Stale {}
