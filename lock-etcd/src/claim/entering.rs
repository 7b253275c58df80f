//! A claim enters the queue.

use std::sync::Arc;

use etcd_client::Txn;
use lock_core::driver::{Busy, LossReason, Request};
use lock_core::toolkit::Call;
use lock_core::{Effect, Error, Result};

use super::position::require_lease;
use super::{EtcdClaim, Foreign};
use crate::answers::Window;
use crate::cluster::RequestError;
use crate::foreign::{self, Search};
use crate::session::Session;
use crate::transactions::{self, Entered, Found, KeyMetadata, Others};

impl EtcdClaim {
    /// Enters the queue at its end. Returns the keys around it, or `None` if the attempt has to start over.
    pub(super) async fn enter(&mut self, call: &Call, session: &Arc<Session>) -> Result<Option<Window>> {
        let lease = session.lease().id;
        match self.ask_to_enter(call, session, lease, transactions::enter(&self.own, lease)).await? {
            Some(Entered::Taken { metadata, around, others }) => {
                self.record_place(metadata, others);
                Ok(Some(around))
            }
            Some(Entered::Refused(found)) => {
                self.check_own_key(&found)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn record_place(&mut self, metadata: KeyMetadata, others: Window) {
        self.place = Some(metadata);
        self.foreign = Foreign::Sought(Search::new(&self.own.queue, others));
    }

    /// Looks first, and enters the queue only if the lock is free.
    pub(super) async fn enter_if_free(&mut self, call: &Call, session: &Arc<Session>) -> Result<Tried> {
        let lease = session.lease().id;
        let looked = self.cluster().txn(call, transactions::look_if_free(&self.own, lease)).await;
        let found = transactions::looked_if_free(&looked.map_err(|e| Error::from(e).not_applied())?)?;
        let others = if found.others.more { Others::Many } else { Others::Few };
        if let Some(tried) = self.find_blocker(call, found).await? {
            return Ok(tried);
        }
        match self
            .ask_to_enter(call, session, lease, transactions::enter_if_free(&self.own, lease, others))
            .await?
        {
            Some(Entered::Taken { metadata, around, others }) => {
                self.record_place(metadata, others);
                Ok(Tried::Placed(Some(around)))
            }
            Some(Entered::Refused(found)) => {
                Ok(self.find_blocker(call, found).await?.unwrap_or(Tried::Placed(None)))
            }
            None => Ok(Tried::Placed(None)),
        }
    }

    /// Returns why a claim that does not wait cannot enter the queue: its own key exists, or another client
    /// has the lock. `None` if the lock is free.
    async fn find_blocker(&mut self, call: &Call, found: Found) -> Result<Option<Tried>> {
        if self.check_own_key(&found)? {
            return Ok(Some(Tried::Placed(None)));
        }
        let queue = &self.own.queue;
        let foreign = foreign::places(&self.shared.cluster, call, queue, found.others).await;
        let places = found.first.into_iter().chain(foreign.map_err(Error::not_applied)?);
        let Some(first) = places.min_by_key(|place| place.created) else { return Ok(None) };
        require_lease(&first)?;
        let holder = queue.entry(&first);
        self.before = Some(first);
        Ok(Some(Tried::Busy(Busy::default().with_holder(holder))))
    }

    /// Sends the transaction that enters the queue. Returns `None` if the session's lease has ended.
    async fn ask_to_enter(
        &mut self,
        call: &Call,
        session: &Arc<Session>,
        lease: i64,
        txn: Txn,
    ) -> Result<Option<Entered>> {
        // From here on the request may take effect, even if this future is dropped. So may an earlier one.
        let was_uncertain = self.uncertain.contains(&lease);
        if !was_uncertain {
            self.uncertain.push(lease);
        }
        let outcome = match self.cluster().txn(call, txn).await {
            Ok(answer) => transactions::entered(&answer, lease).map(Some)?,
            // The session has moved to another lease meanwhile, or this lease has ended.
            Err(RequestError::NoLease) => {
                if session.lease().id == lease {
                    self.shared.end(session);
                }
                None
            }
            Err(RequestError::NotDone(error)) => {
                if !was_uncertain {
                    self.clear_uncertain(lease);
                }
                return Err(error);
            }
            Err(error) => return Err(error.into()),
        };
        if !was_uncertain {
            self.clear_uncertain(lease);
        }
        Ok(outcome)
    }

    /// Notes that no attempt under this lease may take effect any more.
    fn clear_uncertain(&mut self, lease: i64) {
        self.uncertain.retain(|uncertain| *uncertain != lease);
    }

    /// Returns whether the claim's own key is the reason why no place was taken. An error if this owner was already
    /// released, so that it must not get the lock.
    fn check_own_key(&mut self, found: &Found) -> Result<bool> {
        if found.has_tombstone {
            return Err(Error::unavailable(
                Effect::NotApplied,
                "the attempt reached the server after its own release",
            ));
        }
        match &found.own {
            None => Ok(false),
            Some(own) if own.value == self.own.value => {
                self.place = Some(KeyMetadata::from(own));
                Ok(true)
            }
            Some(_) => {
                self.take_another_number();
                Ok(true)
            }
        }
    }

    /// Takes another number, because another owner now has the claim's key: the lock was revoked, and the key stays
    /// until its lease ends.
    pub(super) fn take_another_number(&mut self) {
        let number = self.shared.numbers.take(&self.request.name);
        let Request { name, owner, label, .. } = &self.request;
        self.own = self.shared.layout.own(name, number.number, *owner, label);
        self.numbers.push(number);
        self.lost = self.held.map(|_| LossReason::Revoked).or(self.lost);
        (self.place, self.held, self.membership, self.foreign) = (None, None, None, Foreign::Unknown);
    }
}

/// The outcome of an attempt that does not wait.
pub(super) enum Tried {
    Busy(Busy),
    Placed(Option<Window>),
}
