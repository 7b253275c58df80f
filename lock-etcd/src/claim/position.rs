//! A claim's queue position: it has the lock, or it waits for the key before its own.

use std::sync::Arc;

use lock_core::driver::{Attempt, Busy, Grant, Queueing};
use lock_core::toolkit::Call;
use lock_core::{Effect, Error, FencingToken, Result};

use super::holding::Held;
use super::{EtcdClaim, Foreign, ROUNDS, Round};
use crate::answers::{StoredKey, Window};
use crate::cluster::RequestError;
use crate::errors;
use crate::foreign::{self, Search};
use crate::session::Session;
use crate::transactions::{self, KeyMetadata};

impl EtcdClaim {
    /// Reads the claim's own key and the places before it. Returns `None` if the own key is gone.
    pub(super) async fn look(&mut self, call: &Call, place: KeyMetadata) -> Result<Option<Window>> {
        let answer = self.cluster().txn(call, transactions::look(&self.own, place.created)).await;
        let (own, around) = transactions::looked(&answer.map_err(|e| errors::half_done(e.into()))?)?;
        match own {
            Some(own) if own.created == place.created && own.value == self.own.value => {
                self.place = Some(KeyMetadata::from(&own));
                Ok(Some(around))
            }
            Some(own) if own.value != self.own.value => {
                self.take_another_number();
                Ok(None)
            }
            _ => {
                if let Some(held) = self.held {
                    self.lost = Some(self.why_gone(call, held).await);
                }
                self.forget_place();
                Ok(None)
            }
        }
    }

    /// Finds out whether the claim's place is the lock, or has to wait.
    pub(super) async fn evaluate_place(
        &mut self,
        call: &Call,
        session: &Arc<Session>,
        around: Window,
    ) -> Result<Round> {
        let mut around = around;
        loop {
            if !self.move_to_current_lease(call).await? {
                return Ok(Round::StartOver);
            }
            let Some(place) = self.place else { return Ok(Round::StartOver) };
            let Some((before, is_first)) = self.before(call, place, around).await? else {
                return self.complete_grant(call, session, place).await;
            };
            require_lease(&before)?;
            if self.request.waits == Queueing::No {
                return self.give_back_overtaken(call, before, is_first).await;
            }
            self.before = Some(before.clone());
            let is_watched = self.watching.as_ref().is_some_and(|(watched, _)| is_same(watched, &before));
            if !self.listens || is_watched {
                let holder = is_first.then(|| self.own.queue.entry(&before));
                return Ok(Round::Done(Attempt::Busy(Busy::queued().with_holder(holder))));
            }
            // The place before this one is not the watched one: watch it, and then look again.
            self.watch(call, before).await?;
            around = match self.look(call, place).await? {
                Some(around) => around,
                None => return Ok(Round::StartOver),
            };
        }
    }

    /// Gives the place back: a foreign client took one between the look and this attempt, which does not wait.
    async fn give_back_overtaken(&mut self, call: &Call, before: StoredKey, is_first: bool) -> Result<Round> {
        self.give_back(call).await?;
        let holder = is_first.then(|| self.own.queue.entry(&before));
        self.before = Some(before);
        Ok(Round::Done(Attempt::Busy(Busy::default().with_holder(holder))))
    }

    /// Puts the claim's own key on the session's current lease. Returns whether the key still exists.
    async fn move_to_current_lease(&mut self, call: &Call) -> Result<bool> {
        for _ in 0..ROUNDS {
            let (Some(membership), Some(place)) = (&self.membership, self.place) else { return Ok(false) };
            let lease = membership.session().record_place(membership.member(), place);
            if lease.id == place.lease {
                return Ok(true);
            }
            let mine = [(self.own.key.clone(), place)];
            let answer = match self.cluster().txn(call, transactions::move_to(lease.id, &mine)).await {
                // The session has moved to another lease again.
                Err(RequestError::NoLease) => continue,
                answer => answer?,
            };
            match transactions::moved(&answer, lease.id, &mine)?.into_iter().next().flatten() {
                Some(now) if now.lease == lease.id && now.created == place.created => self.place = Some(now),
                _ => {
                    self.forget_place();
                    return Ok(false);
                }
            }
        }
        Err(Error::unavailable(Effect::Unknown, "the cluster's leader changed too often during the request"))
    }

    /// Returns the place directly before the claim's own, and whether it is the only one seen before it: then it holds
    /// the lock.
    async fn before(
        &mut self,
        call: &Call,
        place: KeyMetadata,
        around: Window,
    ) -> Result<Option<(StoredKey, bool)>> {
        let Window { keys, more } = around;
        let foreign = self.foreign_before(call, place).await?;
        let mut before: Vec<&StoredKey> =
            keys.iter().chain(foreign).filter(|p| p.created < place.created).collect();
        before.sort_by_key(|place| place.created);
        let is_first = before.len() == 1 && !more;
        Ok(before.last().map(|nearest| (StoredKey::clone(nearest), is_first)))
    }

    /// Returns the foreign places before the claim's own that still exist.
    async fn foreign_before(&mut self, call: &Call, place: KeyMetadata) -> Result<&[StoredKey]> {
        let (cluster, queue) = (&self.shared.cluster, &self.own.queue);
        if let Foreign::Unknown = self.foreign {
            let others = cluster.get(call, queue.start(), transactions::others(queue)).await?;
            self.foreign = Foreign::Sought(Search::new(queue, Window::from(&others)));
        }
        let found = match &mut self.foreign {
            Foreign::Known(known) => foreign::still_there(cluster, call, known).await?,
            Foreign::Sought(search) => search.run(cluster, call, queue).await?,
            Foreign::Unknown => Vec::new(),
        };
        let before = found.into_iter().filter(|foreign| foreign.created < place.created);
        self.foreign = Foreign::Known(before.collect());
        match &self.foreign {
            Foreign::Known(known) => Ok(known),
            Foreign::Unknown | Foreign::Sought(_) => Ok(&[]),
        }
    }

    async fn complete_grant(
        &mut self,
        call: &Call,
        session: &Arc<Session>,
        place: KeyMetadata,
    ) -> Result<Round> {
        let token = u64::try_from(place.created).ok().and_then(FencingToken::new);
        let token = token
            .ok_or_else(|| Error::rejected("the server's answer has a key without a create revision"))?;
        let Some(membership) = &self.membership else { return Ok(Round::StartOver) };
        let news = membership.session().record_grant(membership.member());
        self.lost = None;
        self.held = Some(Held { metadata: place, news, doubted: false, told: session.proof().number });
        self._watching_own.get_or_insert_with(|| {
            self.shared.watches.own(&self.own.key, &self.own.value, place, &self.doubt)
        });
        while session.ends().since(call.began()) <= session.proof().lease.ttl / 2 {
            let proven = session.proven();
            session.want_proof();
            if !session.is_alive() || call.within(proven).await.is_none() {
                break;
            }
        }
        if !session.is_alive() {
            return Ok(Round::StartOver);
        }
        // A move to another lease may have begun during the wait. The grant must be of the lease that the key is on.
        if !self.move_to_current_lease(call).await? {
            return Ok(Round::StartOver);
        }
        // A holder does not wait, so it stops watching.
        (self.watching, self.listens, self.before) = (None, false, None);
        let proof = session.proof();
        let (valid_for, age) = (proof.ends().since(call.began()), call.began().since(proof.asked));
        Ok(Round::Done(Attempt::Granted(Grant::new(token, valid_for).with_age(age))))
    }

    pub(super) async fn watch(&mut self, call: &Call, before: StoredKey) -> Result<()> {
        let watching = self.shared.watches.before(call, &before.key, &self.ahead).await?;
        self.watching = Some((before, watching));
        Ok(())
    }
}

/// Returns whether two places have the same key and are the same place: keys are used again.
pub(super) fn is_same(a: &StoredKey, b: &StoredKey) -> bool {
    a.key == b.key && a.created == b.created
}

/// Rejects a place whose key has no lease: no lock client writes such a key, and it never ends.
pub(super) fn require_lease(place: &StoredKey) -> Result<()> {
    match place.lease {
        0 => Err(Error::rejected(format!(
            "the key {} has no lease, so no lock client has written it, and it blocks the lock for ever; delete it by hand",
            place.key.escape_ascii(),
        ))),
        _ => Ok(()),
    }
}
