//! One holder or waiter, as the server shows it.

use std::fmt;
use std::time::Duration;

use crate::human_duration::RoundedDuration;
use crate::owner::{Label, OwnerBytes};
use crate::token::FencingToken;

/// A holder or a waiter.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// if let Some(holder) = lock.inspect().await?.holder {
///     println!("{holder}"); // held by deploy@web-3 pid 4711 for 3 min, lease ends in 12 s
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The owner's bytes as the server stores them, of a client of this library or of another one.
    pub owner: OwnerBytes,
    /// The label, of a client of this library.
    pub label: Option<Label>,
    /// The token, of a holder that is a client of this library.
    pub token: Option<FencingToken>,
    /// The time for which it has held or waited, where that is known. Always known of a holder that is a client of this
    /// library, if the lease belongs to the lock.
    pub since: Option<Duration>,
    /// The time until its lease ends without a renewal. Known where `since` is known.
    pub expires_in: Option<Duration>,
}

impl Entry {
    /// Makes an entry of which only the owner is known. The other fields can be set.
    pub fn new(owner: OwnerBytes) -> Entry {
        Entry { owner, label: None, token: None, since: None, expires_in: None }
    }

    /// Returns whether this is work that is [done](crate::PeriodicGuard::complete): no client holds the lock, and it is
    /// kept to the end of its slot. Its label then begins with `done: `.
    pub fn is_done(&self) -> bool {
        self.done_by().is_some()
    }

    /// Returns the label of the run that has done the work, if it is done.
    fn done_by(&self) -> Option<&str> {
        self.label.as_ref().and_then(Label::of_done)
    }

    /// Ages the entry by `by`. An `expires_in` that has passed becomes `None`: the lease was renewed in between.
    pub(crate) fn later(self, by: Duration) -> Entry {
        Entry {
            since: self.since.map(|since| since + by),
            expires_in: self.expires_in.and_then(|left| left.checked_sub(by)),
            ..self
        }
    }
}

impl fmt::Display for Entry {
    /// For example `held by deploy@web-3 pid 4711 for 3 min, lease ends in 12 s`; of work that is done `done by deploy@web-3
    /// pid 4711, begun 3 min ago, slot ends in 9 h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(label) = self.done_by() {
            write!(f, "done by {label}")?;
            if let Some(since) = self.since {
                write!(f, ", begun {} ago", RoundedDuration(since))?;
            }
            return match self.expires_in {
                Some(left) => write!(f, ", slot ends in {}", RoundedDuration(left)),
                None => Ok(()),
            };
        }
        match &self.label {
            Some(label) => write!(f, "held by {label}")?,
            None => write!(f, "held by \"{}\"", self.owner)?,
        }
        if let Some(since) = self.since {
            write!(f, " for {}", RoundedDuration(since))?;
        }
        match self.expires_in {
            Some(left) => write!(f, ", lease ends in {}", RoundedDuration(left)),
            None => Ok(()),
        }
    }
}
