//! The lock that `lock run` asks for, and what it holds: an ordinary lock, or one that is held once per period.

use std::ops::Deref;

use onelock::{Ending, Guard, Lock, PeriodicGuard, PeriodicLock, Result};

use crate::acquisition::Acquire;

/// The lock that a call asks for.
pub(super) enum Asked {
    Lock(Lock),
    OncePer(PeriodicLock, Lock),
}

/// A held lock.
pub(crate) enum Hold {
    Lock(Guard),
    Slot(PeriodicGuard),
}

impl Acquire for Asked {
    type Hold = Hold;

    fn lock(&self) -> &Lock {
        match self {
            Asked::Lock(lock) | Asked::OncePer(_, lock) => lock,
        }
    }

    async fn acquire(&self) -> Result<Hold> {
        match self {
            Asked::Lock(lock) => lock.acquire().await.map(Hold::Lock),
            Asked::OncePer(lock, _) => lock.acquire().await.map(Hold::Slot),
        }
    }

    async fn try_acquire(&self) -> Result<Option<Hold>> {
        Ok(match self {
            Asked::Lock(lock) => lock.try_acquire().await?.map(Hold::Lock),
            Asked::OncePer(lock, _) => lock.try_acquire().await?.map(Hold::Slot),
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

impl From<Guard> for Hold {
    fn from(guard: Guard) -> Hold {
        Hold::Lock(guard)
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
