//! A claim: the requests of one owner for one lock, which is one row.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Claim, LossReason, Predecessor, Release, Renewal, Request, Takeover, UnixTime, Watched,
};
use lock_core::toolkit::Call;
use lock_core::{Error, Instant, Result};

use crate::on_first_use::OnFirstUse;
use crate::row::Row;
use crate::table::{Course, Key, Listener, Table};

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct SqlClaim<T> {
    table: Arc<OnFirstUse<T>>,
    request: Request,
    listening: Option<Box<dyn Listener>>,
    /// It has heard a release since the last attempt.
    was_released: bool,
    /// The number of releases that it heard before the grant.
    heard: u32,
    seen: Seen,
}

/// The number of times that a call repeats an attempt that saw the lock free but came too late to take it. Each further
/// repetition is needed only if another holder has come and gone between two statements.
const RACE_RETRIES: usize = 3;

/// The view of earlier attempts of this claim.
#[derive(Debug, Default)]
struct Seen {
    /// When the lease of the other owner ends, as the last attempt saw it.
    held_until: Option<Instant>,
    /// When the first and the last attempt were sent that tried to take the lock instead of only looking.
    asked: Option<(Instant, Instant)>,
}

impl<T: Table> SqlClaim<T> {
    pub(crate) fn new(table: Arc<OnFirstUse<T>>, request: Request) -> SqlClaim<T> {
        let (listening, was_released, heard) = (None, false, 0);
        SqlClaim { table, request, listening, was_released, heard, seen: Seen::default() }
    }

    /// Returns the row's key. It is made for each call: many locks are held at a time, and few of them are asked about.
    fn key(&self) -> Key {
        self.table.offline().key(&self.request.name)
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    /// Decides how to attempt. Only a release lets it look several times: a look may be answered by a replica that lags
    /// behind, and must not hide a free lock for ever.
    fn course(&mut self, now: Instant) -> Course {
        let was_released = std::mem::take(&mut self.was_released);
        let listening = self.listening.as_ref().filter(|_| was_released);
        let in_front = listening.map_or(0, |listening| listening.quarters_in_front());
        NonZeroU32::new(in_front).map_or_else(|| self.seen.course(now), Course::LookSeveralTimes)
    }

    /// Makes one attempt, and repeats it if it lost a race. An attempt that saw the lock free, and then found it taken,
    /// doesn't know the new holder; the next attempt does. A waiter that is not told when the lease ends would sleep
    /// past its end.
    async fn ask(&self, call: &Call, course: Course) -> Result<Attempt> {
        let (table, key) = (self.table.opened(call).await?, self.key());
        let mut outcome = table.attempt(call, &key, &self.request, course).await?;
        for _ in 0..RACE_RETRIES {
            let has_lost = matches!(&outcome, Attempt::Busy(busy) if busy.free_in.is_none());
            if !has_lost || call.left().is_zero() {
                break;
            }
            outcome = match table.attempt(call, &key, &self.request, course).await {
                // The earlier answer stays true: another owner had the lock.
                Err(e) if e.is_transient() && !e.may_have_taken_effect() => break,
                again => again?,
            };
        }
        Ok(outcome)
    }

    /// Finds out why the lock is no longer this owner's.
    async fn cause(&self, call: &Call) -> Result<LossReason> {
        Ok(match self.table.opened(call).await?.look(call, &self.key()).await? {
            Some(row) if row.was_revoked_from(&self.request.owner) => LossReason::Revoked,
            Some(Row { left: Some(_), .. }) => LossReason::Taken,
            _ => LossReason::Gone,
        })
    }
}

#[async_trait]
impl<T: Table> Claim for SqlClaim<T> {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        let course = self.course(call.began());
        let outcome = self.ask(&call, course).await?;
        match &outcome {
            // A holder that still listens could receive a wake-up that a waiter needs.
            Attempt::Granted(_) => {
                let listening = self.listening.take();
                self.heard = listening.map_or(self.heard, |listening| listening.heard());
            }
            Attempt::Busy(busy) => {
                self.seen.record_busy(call.began(), course, busy.free_in);
                if let Some(listening) = &self.listening {
                    listening.refresh_mark(&call).await;
                }
            }
        }
        Ok(outcome)
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        let call = self.call();
        let table = self.table.opened(&call).await?;
        table.take_over(&call, &self.key(), &self.request, &predecessor.owner).await
    }

    async fn listen(&mut self) -> Result<()> {
        let call = self.call();
        let table = self.table.opened(&call).await?;
        self.listening = table.listen(&call, &self.key(), &self.request.name).await?;
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
        self.was_released = true;
    }

    async fn watch(&mut self) -> Result<Watched> {
        let call = self.call();
        match self.table.opened(&call).await?.watch(&call, &self.request.owner).await? {
            Some(watching) => self.listening = Some(watching),
            None => {
                return Err(Error::unsupported(
                    "this server doesn't notify holders of a revoke; they learn of it at the next renewal",
                ));
            }
        }
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let call = self.call();
        match self.table.opened(&call).await?.renew(&call, &self.key(), &self.request.owner, ttl).await? {
            Some(left) => Ok(Renewal::Held { valid_for: left, age: Duration::ZERO }),
            None => Ok(Renewal::Lost(self.cause(&call).await?)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        match self.table.if_opened() {
            Some(table) => table.release(&self.call(), &self.key(), &self.request, self.heard).await,
            None => Ok(Release::NotHeld),
        }
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        let call = self.call();
        let time = self.table.opened(&call).await?.time(&call).await;
        time.map(UnixTime::from_micros).map_err(Error::not_applied)
    }
}

/// The time for which a claim only looks before it tries to take the lock again. A look may be answered by a replica
/// that lags behind, and must not hide a free lock for ever. The time is as long as the claim has waited already,
/// within these bounds: trying to take the lock may need more than one statement.
const LOOK_ONLY_TIME: Range<Duration> = Duration::from_secs(1)..Duration::from_secs(5);

impl Seen {
    fn course(&self, now: Instant) -> Course {
        let (Some(until), Some((first, last))) = (self.held_until, self.asked) else { return Course::Take };
        let look_only_time = last.since(first).clamp(LOOK_ONLY_TIME.start, LOOK_ONLY_TIME.end);
        match now < until && now.since(last) < look_only_time {
            true => Course::LookFirst,
            false => Course::Take,
        }
    }

    fn record_busy(&mut self, asked: Instant, course: Course, free_in: Option<Duration>) {
        self.held_until = free_in.map(|free_in| asked + free_in);
        if course == Course::Take {
            let first = self.asked.map_or(asked, |(first, _)| first);
            self.asked = Some((first, asked));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_looks_often_and_attempts_now_and_then() {
        let mut seen = Seen::default();
        let at = |millis| Instant::from_origin(Duration::from_millis(millis));
        let course = |seen: &Seen, millis| seen.course(at(millis));
        let long = Some(Duration::from_secs(60));
        assert_eq!(course(&seen, 0), Course::Take);
        seen.record_busy(at(0), Course::Take, Some(Duration::from_millis(600)));
        assert_eq!((course(&seen, 599), course(&seen, 600)), (Course::LookFirst, Course::Take));
        seen.record_busy(at(500), Course::LookFirst, long);
        assert_eq!((course(&seen, 999), course(&seen, 1000)), (Course::LookFirst, Course::Take));
        for (asks, next) in [(1000, 2000), (2000, 4000), (4000, 8000), (8000, 13_000), (13_000, 18_000)] {
            seen.record_busy(at(asks), Course::Take, long);
            assert_eq!((course(&seen, next - 1), course(&seen, next)), (Course::LookFirst, Course::Take));
        }
        seen.record_busy(at(18_000), Course::Take, None);
        assert_eq!(course(&seen, 18_001), Course::Take, "a lease without a known end may be over");
    }
}
