//! A claim: one owner's business with one row.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Cause, Claim, Release, Renewal, Request};
use lock_core::{Instant, Result};

use crate::call::Call;
use crate::row::Row;
use crate::table::{Course, Key, Listener, Table};

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct SqlClaim<T> {
    table: Arc<T>,
    request: Request,
    key: Key,
    listening: Option<Box<dyn Listener>>,
    seen: Seen,
}

/// What the attempts before this one saw.
#[derive(Debug, Default)]
struct Seen {
    /// Until when it was somebody else's.
    held_until: Option<Instant>,
    /// When it was last asked for by a statement that takes it, instead of a look.
    asked: Option<Instant>,
}

impl<T: Table> SqlClaim<T> {
    pub(crate) fn new(table: Arc<T>, request: Request) -> SqlClaim<T> {
        let key = table.key(&request.name);
        SqlClaim { table, request, key, listening: None, seen: Seen::default() }
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    /// Why the lock is no longer this owner's.
    async fn cause(&self, call: &Call) -> Result<Cause> {
        Ok(match self.table.look(call, &self.key).await? {
            Some(row) if row.was_revoked_from(&self.request.owner) => Cause::Revoked,
            Some(Row { left: Some(_), .. }) => Cause::Taken,
            _ => Cause::Gone,
        })
    }
}

#[async_trait]
impl<T: Table> Claim for SqlClaim<T> {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        let course = self.seen.course(call.began);
        let outcome = self.table.attempt(&call, &self.key, &self.request, course).await?;
        match &outcome {
            // What wakes a holder is missed by a waiter.
            Attempt::Granted(_) => self.listening = None,
            Attempt::Busy(busy) => {
                self.seen.busy(&call, course, busy.free_in);
                if let Some(listening) = &self.listening {
                    listening.go_on(&call).await;
                }
            }
        }
        Ok(outcome)
    }

    async fn listen(&mut self) -> Result<()> {
        self.listening = self.table.listen(&self.call(), &self.key, &self.request.name).await?;
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let call = self.call();
        match self.table.renew(&call, &self.key, &self.request.owner, ttl).await? {
            Some(left) => Ok(Renewal::Held { valid_for: left }),
            None => Ok(Renewal::Lost(self.cause(&call).await?)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        self.table.release(&self.call(), &self.key, &self.request).await
    }
}

/// How long a claim is content with looking: what answers a look may be a replica that lags behind, and must not hide
/// a free lock for good.
const LOOKS: Duration = Duration::from_secs(1);

impl Seen {
    fn course(&self, now: Instant) -> Course {
        match (self.held_until, self.asked) {
            (Some(until), Some(asked)) if now < until && now.since(asked) < LOOKS => Course::LookFirst,
            _ => Course::Take,
        }
    }

    fn busy(&mut self, call: &Call, course: Course, free_in: Option<Duration>) {
        self.held_until = free_in.map(|free_in| call.began + free_in);
        if course == Course::Take {
            self.asked = Some(call.began);
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Clock;

    use super::*;

    #[test]
    fn it_looks_while_the_lock_should_be_held_and_asks_once_a_second() {
        let mut seen = Seen::default();
        let call = Call::begin(&Clock::system(), Duration::from_secs(1));
        let at = |millis| call.began + Duration::from_millis(millis);
        assert_eq!(seen.course(at(0)), Course::Take);
        seen.busy(&call, Course::Take, Some(Duration::from_millis(600)));
        assert_eq!((seen.course(at(599)), seen.course(at(600))), (Course::LookFirst, Course::Take));
        seen.busy(&call, Course::LookFirst, Some(Duration::from_secs(5)));
        assert_eq!((seen.course(at(999)), seen.course(at(1000))), (Course::LookFirst, Course::Take));
        seen.busy(&call, Course::Take, None);
        assert_eq!(seen.course(at(1)), Course::Take, "whose end is not known may be free");
    }
}
