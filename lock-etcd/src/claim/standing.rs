//! What a place is worth: the lock, or a wait for who stands before it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Attempt, Busy, Call, Grant};
use lock_core::{Done, Error, FencingToken, Instant, Result};

use super::holding::Held;
use super::{EtcdClaim, ROUNDS, Round};
use crate::answers::{Place, Window};
use crate::cluster::Trouble;
use crate::errors;
use crate::session::Session;
use crate::transactions::{self, Standing};

impl EtcdClaim {
    /// Looks where the own key is, and who stands before it. Nothing if it has gone.
    pub(super) async fn look(&mut self, call: &Call, place: Standing) -> Result<Option<Window>> {
        let answer = self.cluster().txn(call, transactions::look(&self.own, place.created)).await;
        let (own, around) = transactions::looked(&answer.map_err(|e| errors::half_done(e.into()))?)?;
        match own {
            Some(own) if own.created == place.created && own.value == self.own.value => {
                self.place = Some(Standing::from(&own));
                Ok(Some(around))
            }
            Some(own) if own.value != self.own.value => {
                self.take_another_slot();
                Ok(None)
            }
            _ => {
                if let Some(held) = self.held {
                    self.lost = Some(self.why_gone(call, held).await);
                }
                self.has_no_place();
                Ok(None)
            }
        }
    }

    /// What the place is worth: the lock, or a wait.
    pub(super) async fn stand(
        &mut self,
        call: &Call,
        session: &Arc<Session>,
        around: Window,
    ) -> Result<Round> {
        let mut around = around;
        loop {
            if !self.settle(call).await? {
                return Ok(Round::Anew);
            }
            let Some(place) = self.place else { return Ok(Round::Anew) };
            let Some((before, is_first)) = self.before(call, place, around).await? else {
                return self.is_granted(call, session, place).await;
            };
            must_end(&before)?;
            self.before = Some(before.clone());
            let is_watched = self.watching.as_ref().is_some_and(|(watched, _)| is_same(watched, &before));
            if !self.listens || is_watched {
                let holder = is_first.then(|| Box::new(self.own.queue.entry(&before)));
                return Ok(Round::Done(Attempt::Busy(Busy { queued: true, free_in: None, holder })));
            }
            // Another one stands there than the last time: it is watched before the look that counts.
            self.watch(call, before).await?;
            around = match self.look(call, place).await? {
                Some(around) => around,
                None => return Ok(Round::Anew),
            };
        }
    }

    /// Sees to it that the own key is on the session's present lease. Whether it is still there.
    async fn settle(&mut self, call: &Call) -> Result<bool> {
        for _ in 0..ROUNDS {
            let (Some(seat), Some(place)) = (&self.seat, self.place) else { return Ok(false) };
            let lease = seat.stands(place);
            if lease.id == place.lease {
                return Ok(true);
            }
            let mine = [(self.own.key.clone(), place)];
            let answer = match self.cluster().txn(call, transactions::move_to(lease.id, &mine)).await {
                // It was moved from again.
                Err(Trouble::NoLease) => continue,
                answer => answer?,
            };
            match transactions::moved(&answer, lease.id, &mine)?.into_iter().next().flatten() {
                Some(now) if now.lease == lease.id && now.created == place.created => self.place = Some(now),
                _ => {
                    self.has_no_place();
                    return Ok(false);
                }
            }
        }
        Err(Error::unavailable(Done::Unknown, "the cluster has one leader after another"))
    }

    /// Who stands right before the own place, and whether nobody was seen before that: then it holds the lock. Where
    /// deeper names fill what was looked at, it is asked on.
    async fn before(&self, call: &Call, place: Standing, around: Window) -> Result<Option<(Place, bool)>> {
        let mut around = around;
        loop {
            let queue = &self.own.queue;
            let is_before = |other: &&Place| other.created < place.created && queue.has(&other.key);
            let mut before = around.places.iter().filter(is_before);
            if let Some(nearest) = before.next() {
                return Ok(Some((nearest.clone(), before.next().is_none() && !around.more)));
            }
            let Some(last) = around.places.last().filter(|_| around.more) else { return Ok(None) };
            let options = transactions::newest().with_max_create_revision(last.created - 1);
            around = Window::from(&self.cluster().get(call, queue.start(), options).await?);
        }
    }

    async fn is_granted(&mut self, call: &Call, session: &Arc<Session>, place: Standing) -> Result<Round> {
        let token = u64::try_from(place.created).ok().and_then(FencingToken::new);
        let token =
            token.ok_or_else(|| Error::rejected("the server gave a key without a create revision"))?;
        let Some(seat) = &self.seat else { return Ok(Round::Anew) };
        let news = seat.holds();
        self.lost = None;
        self.held = Some(Held { standing: place, news, doubted: false, told: session.proof().number });
        self._watching_own.get_or_insert_with(|| {
            self.shared.watches.own(&self.own.key, &self.own.value, place, &self.doubt)
        });
        while left(session, call.began()) <= session.proof().lease.ttl / 2 {
            let proven = session.proven();
            session.want_proof();
            if !session.is_alive() || call.within(proven).await.is_none() {
                break;
            }
        }
        if !session.is_alive() {
            return Ok(Round::Anew);
        }
        // A move may have begun while that was waited for: what is told is of the lease that the key is on.
        if !self.settle(call).await? {
            return Ok(Round::Anew);
        }
        // A holder waits for nothing: a wake-up that it took would be none to anybody else.
        (self.watching, self.listens, self.before) = (None, false, None);
        Ok(Round::Done(Attempt::Granted(Grant { token, valid_for: left(session, call.began()) })))
    }

    pub(super) async fn watch(&mut self, call: &Call, before: Place) -> Result<()> {
        let watching = self.shared.watches.before(call, &before.key, &self.ahead).await?;
        self.watching = Some((before, watching));
        Ok(())
    }
}

fn left(session: &Session, start: Instant) -> Duration {
    session.ends().since(start)
}

/// The same key, and the same place: keys are used again.
pub(super) fn is_same(a: &Place, b: &Place) -> bool {
    a.key == b.key && a.created == b.created
}

/// A key that no lease ends is no lock client's.
pub(super) fn must_end(place: &Place) -> Result<()> {
    match place.lease {
        0 => Err(Error::rejected(format!(
            "the key {} has no lease: no lock client has written it, and nobody else would ever get the lock; delete it",
            place.key.escape_ascii(),
        ))),
        _ => Ok(()),
    }
}
