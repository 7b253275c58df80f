//! A claim: one owner's business with one queue.

mod entering;
mod holding;
mod leaving;
mod standing;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Call, Cause, Claim, Release, Renewal, Request, Waits, Watched};
use lock_core::{Done, Error, Instant, Result};
use tokio::sync::Notify;

use self::entering::Tried;
use self::holding::{Held, Verdict};
use self::standing::is_same;
use crate::answers::Place;
use crate::cluster::Cluster;
use crate::errors;
use crate::foreign::Search;
use crate::keys::Own;
use crate::lease::whole_seconds;
use crate::session::{Remains, Seat, Session};
use crate::sessions::Sessions;
use crate::slots::Slot;
use crate::transactions::Standing;
use crate::watches::Watching;

/// One owner's claim on one lock. Its attempts and its release are about one key.
#[derive(Debug)]
pub(crate) struct EtcdClaim {
    shared: Arc<Sessions>,
    request: Request,
    own: Own,
    /// The one of its key, behind those that it has found taken. Kept until the claim ends: else it would be given one of
    /// them again.
    slots: Vec<Slot>,
    /// Told of the key that is waited for.
    ahead: Arc<Notify>,
    /// Told of the own key, and of the session's end.
    doubt: Arc<Notify>,
    seat: Option<Seat>,
    /// Where the own key was last seen.
    place: Option<Standing>,
    /// The foreign places before it.
    foreign: Foreign,
    /// The leases of attempts that were not answered: they may yet take effect.
    uncertain: Vec<i64>,
    held: Option<Held>,
    /// Why a lock that was granted is not held any more, where an attempt has found out.
    lost: Option<Cause>,
    /// Who stood before this claim when it last looked.
    before: Option<Place>,
    /// From [`Claim::listen`] until the lock is granted or given back: also in another place, if the first one is lost.
    listens: bool,
    /// When the server first refused its release.
    refused_since: Option<Instant>,
    watching: Option<(Place, Watching)>,
    _watching_own: Option<Watching>,
}

/// The foreign places before the own one. Once that is there, no others come to be.
#[derive(Debug)]
enum Foreign {
    Unknown,
    /// They are looked for since the place was taken.
    Sought(Search),
    /// Those that were there when it was last looked.
    Known(Vec<Place>),
}

/// How often an attempt begins anew because what it had has gone.
const ROUNDS: usize = 4;

/// What came of a round.
enum Round {
    Done(Attempt),
    /// The place, or the session, has gone: from the beginning.
    Anew,
}

impl EtcdClaim {
    pub(crate) fn new(shared: Arc<Sessions>, request: Request) -> EtcdClaim {
        let slot = shared.slots.take(&request.name);
        let own = shared.layout.own(&request.name, slot.number, request.owner, &request.label);
        EtcdClaim {
            shared,
            request,
            own,
            slots: vec![slot],
            ahead: Arc::default(),
            doubt: Arc::default(),
            seat: None,
            place: None,
            foreign: Foreign::Unknown,
            uncertain: Vec::new(),
            held: None,
            lost: None,
            before: None,
            listens: false,
            refused_since: None,
            watching: None,
            _watching_own: None,
        }
    }

    fn cluster(&self) -> Arc<Cluster> {
        self.shared.cluster.clone()
    }

    async fn round(&mut self, call: &Call) -> Result<Round> {
        let session = self.sit_down(call).await?;
        let around = match self.place {
            Some(place) => self.look(call, place).await?,
            None => match self.request.waits {
                Waits::Queued => self.enter(call, &session).await?,
                Waits::No => match self.enter_if_free(call, &session).await? {
                    Tried::Busy(busy) => return Ok(Round::Done(Attempt::Busy(busy))),
                    Tried::Placed(around) => around,
                },
            },
        };
        let Some(around) = around else { return Ok(Round::Anew) };
        // From here on the place is there, whatever happens.
        self.stand(call, &session, around).await.map_err(errors::half_done)
    }

    /// Takes a seat in a session that is alive. What it may have in one that has ended is given back first, so that it
    /// never has two places.
    async fn sit_down(&mut self, call: &Call) -> Result<Arc<Session>> {
        if let Some(seat) = &self.seat {
            if seat.session.is_alive() {
                return Ok(seat.session.clone());
            }
            self.give_back(call).await.map_err(errors::half_done)?;
            self.seat = None;
        }
        let seconds = whole_seconds(self.request.ttl);
        let seat = self.shared.join(call, seconds, &self.own.key, &self.doubt).await?;
        let session = seat.session.clone();
        self.seat = Some(seat);
        Ok(session)
    }

    fn has_no_place(&mut self) {
        (self.place, self.held, self.foreign) = (None, None, Foreign::Unknown);
        self._watching_own = None;
        if let Some(seat) = &self.seat {
            seat.leaves();
        }
    }
}

#[async_trait]
impl Claim for EtcdClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        self.shared.cluster.check()?;
        for _ in 0..ROUNDS {
            if let Round::Done(attempt) = self.round(call).await? {
                return Ok(attempt);
            }
        }
        Err(Error::unavailable(Done::Unknown, "what the claim had on the server went again and again"))
    }

    async fn listen(&mut self) -> Result<()> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        if let Some(before) = self.before.clone()
            && !self.watching.as_ref().is_some_and(|(watched, _)| is_same(watched, &before))
        {
            self.watch(call, before).await?;
        }
        self.listens = true;
        Ok(())
    }

    async fn changed(&mut self) {
        if let (Some(seat), Some(held)) = (&self.seat, &self.held) {
            tokio::select! {
                biased;
                () = self.doubt.notified() => self.doubts(),
                // What the session has proven is to be passed on at once: it may be the last proof for a while.
                () = seat.session.is_proven_after(held.told) => {}
            }
            return;
        }
        tokio::select! {
            biased;
            () = self.ahead.notified() => {}
            () = self.doubt.notified() => {}
        }
    }

    /// The own key is watched from its grant on.
    async fn watch(&mut self) -> Result<Watched> {
        Ok(Watched::SinceTheGrant)
    }

    /// Sends nothing: it is the session that is kept alive, and its heartbeats say what it has.
    async fn renew(&mut self, _ttl: Duration) -> Result<Renewal> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        if self.is_woken().await {
            self.doubts();
        }
        let (Some(session), Some(mut held)) =
            (self.seat.as_ref().map(|seat| seat.session.clone()), self.held)
        else {
            return Ok(Renewal::Lost(self.lost.unwrap_or(Cause::Gone)));
        };
        loop {
            // Before the look: no proof goes unnoticed from here on.
            let (proven, proof) = (session.proven(), session.proof());
            held.told = proof.number;
            self.held = Some(held);
            match held.judge(&proof, &self.own.key, call.began()) {
                Verdict::Held { valid_for, age } => {
                    self.held = Some(Held { doubted: false, ..held });
                    return Ok(Renewal::Held { valid_for, age });
                }
                Verdict::Lost(Some(cause)) => return Ok(Renewal::Lost(cause)),
                Verdict::Lost(None) => return Ok(Renewal::Lost(self.why_gone(call, held).await)),
                Verdict::Unknown => {}
            }
            session.want_proof();
            call.within(proven).await.ok_or_else(|| call.out_of_time(Done::Unknown))?;
        }
    }

    async fn release(&mut self) -> Result<Release> {
        self.listens = false;
        let call = &Call::begin(&self.request.clock, self.request.patience);
        match self.give_back(call).await {
            Err(e) if !e.is_transient() => self.is_refused(call, e),
            release => release,
        }
    }
}

impl Drop for EtcdClaim {
    /// A claim that was not released was cut short: what it has goes all the same.
    fn drop(&mut self) {
        if self.place.is_none() && self.uncertain.is_empty() || self.shared.are_copied() {
            return;
        }
        self.shared.slots.retire();
        if let Some(seat) = &self.seat {
            let (own, leases) = (self.own.clone(), std::mem::take(&mut self.uncertain));
            seat.session.leave_behind(Remains { own, leases });
        }
    }
}
