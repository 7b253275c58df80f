//! The lock that a call asks for, and what it holds: an ordinary lock, or one that is held once per period.

use std::ops::Deref;

use onelock::{Ending, Guard, Lock, PeriodicGuard, PeriodicLock, Result};

/// The lock that a call asks for.
pub(super) enum Asked {
    Lock(Lock),
    OncePer(PeriodicLock),
}

/// A held lock.
pub(super) enum Hold {
    Lock(Guard),
    Slot(PeriodicGuard),
}

impl Asked {
    pub(super) async fn acquire(&self) -> Result<Hold> {
        match self {
            Asked::Lock(lock) => lock.acquire().await.map(Hold::Lock),
            Asked::OncePer(lock) => lock.acquire().await.map(Hold::Slot),
        }
    }

    pub(super) async fn try_acquire(&self) -> Result<Option<Hold>> {
        Ok(match self {
            Asked::Lock(lock) => lock.try_acquire().await?.map(Hold::Lock),
            Asked::OncePer(lock) => lock.try_acquire().await?.map(Hold::Slot),
        })
    }
}

impl Hold {
    pub(super) async fn release(self) -> Ending {
        match self {
            Hold::Lock(guard) => guard.release().await,
            Hold::Slot(guard) => guard.release().await,
        }
    }
}

impl Deref for Hold {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Hold::Lock(guard) => guard,
            Hold::Slot(guard) => guard,
        }
    }
}
