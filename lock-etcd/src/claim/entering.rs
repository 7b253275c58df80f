//! How a claim comes to a place in the queue.

use std::sync::Arc;

use lock_core::driver::{Busy, Call, Cause, Request};
use lock_core::{Done, Error, Result};

use super::standing::must_end;
use super::{EtcdClaim, ROUNDS};
use crate::answers::{Place, Window};
use crate::cluster::Trouble;
use crate::errors;
use crate::session::Session;
use crate::transactions::{self, Entered, Refused, Standing};

impl EtcdClaim {
    /// Takes a place at the end of the queue. Who stands around it; nothing if that has to be tried anew.
    pub(super) async fn enter(&mut self, call: &Call, session: &Arc<Session>) -> Result<Option<Window>> {
        let lease = session.lease().id;
        match self.ask_to_enter(call, session, lease, None).await? {
            Some(Entered::Taken { standing, around }) => {
                self.place = Some(standing);
                Ok(Some(around))
            }
            Some(Entered::Refused(refused)) => {
                self.is_refused(&refused)?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Takes a place if that is the lock. Deeper names may lie in the queue's range: then nothing may have been created in
    /// it since it was looked at.
    pub(super) async fn enter_if_free(&mut self, call: &Call, session: &Arc<Session>) -> Result<Tried> {
        let lease = session.lease().id;
        let mut later = 1;
        for _ in 0..ROUNDS {
            let refused = match self.ask_to_enter(call, session, lease, Some(later)).await? {
                Some(Entered::Taken { standing, around }) => {
                    self.place = Some(standing);
                    return Ok(Tried::Placed(Some(around)));
                }
                Some(Entered::Refused(refused)) => refused,
                None => return Ok(Tried::Placed(None)),
            };
            if self.is_refused(&refused)? {
                return Ok(Tried::Placed(None));
            }
            let (revision, first) = (refused.revision, self.first(call, refused.first).await?);
            if let Some(first) = first {
                must_end(&first)?;
                let holder = Some(Box::new(self.own.queue.entry(&first)));
                self.before = Some(first);
                return Ok(Tried::Busy(Busy { queued: false, free_in: None, holder }));
            }
            later = revision + 1;
        }
        Err(Error::unavailable(Done::No, "other names below this one were taken all the time"))
    }

    /// Asks for a place. Nothing if the session's lease has ended.
    async fn ask_to_enter(
        &mut self,
        call: &Call,
        session: &Arc<Session>,
        lease: i64,
        later: Option<i64>,
    ) -> Result<Option<Entered>> {
        let txn = match later {
            None => transactions::enter(&self.own, lease),
            Some(later) => transactions::enter_if_free(&self.own, lease, later),
        };
        match self.cluster().txn(call, txn).await {
            Ok(answer) => transactions::entered(&answer, lease).map(Some),
            // It was moved from, meanwhile, or has ended.
            Err(Trouble::NoLease) if session.lease().id == lease => {
                self.shared.end(session);
                Ok(None)
            }
            Err(Trouble::NoLease) => Ok(None),
            Err(trouble) => {
                let error = Error::from(trouble);
                if error.may_have_been_done() && !self.uncertain.contains(&lease) {
                    self.uncertain.push(lease);
                }
                Err(error)
            }
        }
    }

    /// Why no place was taken: whether the own key told. An error if this owner is to get nothing any more.
    fn is_refused(&mut self, refused: &Refused) -> Result<bool> {
        if refused.buried {
            return Err(Error::unavailable(Done::No, "the attempt came after its release"));
        }
        match &refused.own {
            None => Ok(false),
            Some(own) if own.value == self.own.value => {
                self.place = Some(Standing::from(own));
                Ok(true)
            }
            Some(_) => {
                self.take_another_slot();
                Ok(true)
            }
        }
    }

    /// The own key is somebody else's by now: it was revoked, and stays so until its lease ends.
    pub(super) fn take_another_slot(&mut self) {
        let slot = self.shared.slots.take(&self.request.name);
        let Request { name, owner, label, .. } = &self.request;
        self.own = self.shared.layout.own(name, slot.number, *owner, label);
        self.slot = slot;
        self.lost = self.held.map(|_| Cause::Revoked).or(self.lost);
        (self.place, self.held, self.seat) = (None, None, None);
    }

    /// The oldest place of the queue.
    async fn first(&self, call: &Call, window: Window) -> Result<Option<Place>> {
        let mut window = window;
        loop {
            let queue = &self.own.queue;
            if let Some(first) = window.places.iter().find(|place| queue.has(&place.key)) {
                return Ok(Some(first.clone()));
            }
            let Some(last) = window.places.last().filter(|_| window.more) else { return Ok(None) };
            let options = transactions::oldest().with_min_create_revision(last.created + 1);
            let answer = self.cluster().get(call, queue.start(), options).await;
            window = Window::from(&answer.map_err(|e| errors::not_done(e.into()))?);
        }
    }
}

/// What came of an attempt that does not wait.
pub(super) enum Tried {
    Busy(Busy),
    Placed(Option<Window>),
}
