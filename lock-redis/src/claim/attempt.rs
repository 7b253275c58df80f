//! An attempt: a look or two, and the script that takes the lock if it is free.

use std::time::Duration;

use lock_core::driver::{Attempt, Busy, Queueing};
use lock_core::toolkit::Call;
use lock_core::{Effect, Error, Instant, Result};
use redis::Value;

use super::{RedisClaim, duration, grant_of, too_late};
use crate::acks::Acknowledged;
use crate::facts::Membership;
use crate::listening::Listening;
use crate::server::Server;

/// By how much the end of one lease may seem to differ at two looks: as much as one answer is slower than the other.
const SAME_END: Duration = Duration::from_millis(20);

impl RedisClaim {
    pub(crate) async fn attempt_within(&mut self, call: &Call) -> Result<Attempt> {
        if self.request.waits == Queueing::Queued && self.listening.is_none() {
            let Server { feed, layout, .. } = &*self.server;
            self.listening = Listening::to_releases_already(feed, &self.releases(), *layout, &self.request);
        }
        let outcome = match self.look_first(call).await? {
            Some(busy) => Ok(Attempt::Busy(busy)),
            None => self.grant(call).await,
        };
        match outcome {
            Ok(Attempt::Granted(grant)) => {
                // A holder does not wait for wake-ups: one that it consumed would be missed by a waiter of this process.
                self.listening = None;
                Ok(Attempt::Granted(grant))
            }
            Ok(Attempt::Busy(busy)) => {
                self.has_waited = true;
                // A place in a queue is kept by asking: it needs the script each time.
                self.without_notification = busy.without_notification;
                let free_in = busy.free_in.filter(|_| !busy.queued);
                self.taken_until = free_in.map(|free_in| call.began() + free_in);
                Ok(Attempt::Busy(if self.listening.is_some() { busy.and_listens() } else { busy }))
            }
            Err(e) => {
                self.maybe_held |= e.may_have_taken_effect();
                Err(e)
            }
        }
    }

    /// Looks at a lock before it asks for it: once if the lock was seen held, and after a release as often as there are
    /// quarters of all waiters that have waited for longer, so that those ask first. Returns `None` if only the script can
    /// tell.
    async fn look_first(&mut self, call: &Call) -> Result<Option<Busy>> {
        if let Some(until) = self.taken_until.take() {
            return self.look(call, until).await;
        }
        let until = call.began() + self.request.ttl;
        for _ in 0..self.listening.as_ref().map_or(0, Listening::quarters_in_front) {
            if let Some(busy) = self.look(call, until).await? {
                return Ok(Some(busy));
            }
        }
        Ok(None)
    }

    /// Looks at a lock, at a seventh of what the script costs the server. As last seen, another owner has it `until` then.
    async fn look(&mut self, call: &Call, until: Instant) -> Result<Option<Busy>> {
        if self.maybe_held || call.began() >= until {
            return Ok(None);
        }
        match self.server.ask(call, redis::cmd("PTTL").arg(self.keys().lock)).await {
            Ok(Value::Int(left @ 0..)) => {
                let (busy, ends) =
                    (Busy::default().with_free_in(duration(left)), call.began() + duration(left));
                Ok(match self.without_notification {
                    false => Some(busy),
                    // Another lease: only the script shows whether its holder announces its release.
                    true if ends > until + SAME_END => None,
                    true => Some(busy.and_without_notification()),
                })
            }
            Ok(_) => Ok(None),
            // A look has done nothing, also if it was not answered.
            Err(e) if e.is_transient() => {
                Err(Error::unavailable(Effect::NotApplied, e.message()).with_source(e))
            }
            Err(e) => Err(e),
        }
    }

    /// Asks for the lock. The server may refuse an attempt as late although it has time left, because our estimate of
    /// the server's clock was behind. The refusal corrects the estimate, and the attempt is sent once more.
    async fn grant(&mut self, call: &Call) -> Result<Attempt> {
        let written = self.written();
        for _ in 0..2 {
            let link = self.server.primary(call).await?;
            if link.facts.membership == Membership::OfACluster {
                written.keys.check_on_a_cluster()?;
            }
            let grant = &self.server.layout.scripts().grant;
            let mut command = self.asks(grant, &written, &link, call);
            self.server.layout.add_to_grant(&mut command, self.asker(&written, &link));
            self.is_asked = true;
            let (answer, acknowledgement) =
                self.server.run_acknowledged_on(&link, call, grant, command).await?;
            self.is_asked = false;
            match answer.fields[..] {
                [1, token, left] => {
                    return match acknowledgement.kept().await {
                        Acknowledged::Enough => {
                            grant_of(token, left).map(Attempt::Granted).ok_or_else(|| answer.unexpected())
                        }
                        too_few => Err(self.take_back(call, too_few).await),
                    };
                }
                [0, left] => return busy(left).map(Attempt::Busy),
                [3, left] => return Ok(Attempt::Busy(busy(left)?.and_without_notification())),
                [2, look] => return Ok(Attempt::Busy(Busy::queued().with_free_in(duration(look)))),
                [-1] if !call.left().is_zero() => {}
                [-1] => break,
                _ => return Err(answer.unexpected()),
            }
        }
        Err(too_late())
    }

    /// Gives up a lock that was granted, and that too few replicas know of.
    async fn take_back(&mut self, call: &Call, kept: Acknowledged) -> Error {
        let message = format!("the grant was taken back: {kept}");
        match self.release_within(call).await {
            Ok(_) => Error::unavailable(Effect::NotApplied, message),
            Err(e) => Error::unavailable(Effect::Unknown, format!("{kept}; {}", e.message())).with_source(e),
        }
    }
}

fn busy(left: i64) -> Result<Busy> {
    match left {
        -1 => Err(Error::rejected(
            "the key has no expiry: some clients write such a key when they take a lock without a timeout, as redis-py's \
             Lock does by default, and so do programs that keep other data there; have that client set a timeout, take \
             another name or prefix, or delete the key",
        )),
        // Free, and the turn of a waiter.
        -2 => Ok(Busy::default()),
        left => Ok(Busy::default().with_free_in(duration(left))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_end_is_no_lock() {
        assert!(busy(-1).is_err());
        assert!(matches!(busy(0), Ok(Busy { free_in: Some(Duration::ZERO), .. })));
    }
}
