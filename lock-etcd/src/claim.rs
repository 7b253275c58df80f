//! A claim: one owner and its place in the queue of one name.

mod entering;
mod holding;
mod leaving;
mod position;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Claim, LossReason, Queueing, Release, Renewal, Request, Watched};
use lock_core::toolkit::{Call, whole_seconds};
use lock_core::{Effect, Error, Instant, Result};
use tokio::sync::Notify;

use self::entering::Tried;
use self::holding::{Held, Verdict};
use self::position::is_same;
use crate::answers::StoredKey;
use crate::cluster::Cluster;
use crate::errors;
use crate::foreign::Search;
use crate::key_numbers::KeyNumber;
use crate::keys::Own;
use crate::session::{Abandoned, Member, Membership, Session};
use crate::sessions::Sessions;
use crate::transactions::KeyMetadata;
use crate::watches::Watching;

/// One owner's claim on one lock. All its attempts, and its release, concern one key.
#[derive(Debug)]
pub(crate) struct EtcdClaim {
    shared: Arc<Sessions>,
    request: Request,
    own: Own,
    /// The number of the claim's key is the last one; before it are the numbers whose keys were found taken. All are
    /// kept until the claim ends. Otherwise the client would give the claim one of the taken numbers again.
    numbers: Vec<KeyNumber>,
    /// Notified when the key that the claim waits for changes.
    ahead: Arc<Notify>,
    /// Notified when the claim's own key changes, and when the session ends.
    doubt: Arc<Notify>,
    membership: Option<Membership>,
    /// The claim's own key, as last seen.
    place: Option<KeyMetadata>,
    /// The places of foreign clients before the claim's own place.
    foreign: Foreign,
    /// The leases of attempts that were not answered: those attempts may still take effect.
    uncertain: Vec<i64>,
    held: Option<Held>,
    /// Why a granted lock is no longer held, if an attempt has found that out.
    lost: Option<LossReason>,
    /// The place before this claim's own, as last seen.
    before: Option<StoredKey>,
    /// True from [`Claim::listen`] until the lock is granted or given back, even if the claim loses its place and takes
    /// another one.
    listens: bool,
    /// When the server refused the release for the first time.
    refused_since: Option<Instant>,
    watching: Option<(StoredKey, Watching)>,
    _watching_own: Option<Watching>,
}

/// The places of foreign clients before the claim's own place. After the own place was taken, no more can appear before
/// it.
#[derive(Debug)]
enum Foreign {
    Unknown,
    /// The search began when the claim took its place, and has not ended.
    Sought(Search),
    /// The keys that existed at the last look.
    Known(Vec<StoredKey>),
}

/// The number of times that an attempt starts over because its place or its session is gone.
const ROUNDS: usize = 4;

/// The outcome of one round of an attempt.
enum Round {
    Done(Attempt),
    /// The place or the session is gone: the attempt starts over.
    StartOver,
}

impl EtcdClaim {
    pub(crate) fn new(shared: Arc<Sessions>, request: Request) -> EtcdClaim {
        let number = shared.numbers.take(&request.name);
        let own = shared.layout.own(&request.name, number.number, request.owner, &request.label);
        EtcdClaim {
            shared,
            request,
            own,
            numbers: vec![number],
            ahead: Arc::default(),
            doubt: Arc::default(),
            membership: None,
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
        let session = self.join_session(call).await?;
        let around = match self.place {
            Some(place) => self.look(call, place).await?,
            None => match self.request.waits {
                Queueing::Queued => self.enter(call, &session).await?,
                Queueing::No => match self.enter_if_free(call, &session).await? {
                    Tried::Busy(busy) => return Ok(Round::Done(Attempt::Busy(busy))),
                    Tried::Placed(around) => around,
                },
            },
        };
        let Some(around) = around else { return Ok(Round::StartOver) };
        // From here on the claim has a place: an error must not say that nothing was done.
        self.evaluate_place(call, &session, around).await.map_err(errors::half_done)
    }

    /// Returns the claim's session, or joins one if the claim has none that is alive. What the claim may have in an
    /// ended session is given back first, so that the claim never has two places.
    async fn join_session(&mut self, call: &Call) -> Result<Arc<Session>> {
        if let Some(membership) = &self.membership {
            if membership.session().is_alive() {
                return Ok(membership.session().clone());
            }
            self.give_back(call).await.map_err(errors::half_done)?;
            self.membership = None;
        }
        let seconds = whole_seconds(self.request.ttl);
        let member = Member { key: self.own.key.clone(), wake: self.doubt.clone() };
        let membership = self.shared.join(call, seconds, &member).await?;
        let session = membership.session().clone();
        self.membership = Some(membership);
        Ok(session)
    }

    fn forget_place(&mut self) {
        (self.place, self.held, self.foreign) = (None, None, Foreign::Unknown);
        self._watching_own = None;
        if let Some(membership) = &self.membership {
            membership.session().forget_place(membership.member());
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
        Err(Error::unavailable(
            Effect::Unknown,
            "the claim's key or session on the server disappeared several times during one attempt",
        ))
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
        if let (Some(membership), Some(held)) = (&self.membership, &self.held) {
            tokio::select! {
                biased;
                () = self.doubt.notified() => self.require_new_proof(),
                // A new proof is passed on at once: it may be the last one for some time.
                () = membership.session().wait_for_proof_after(held.told) => {}
            }
            return;
        }
        tokio::select! {
            biased;
            () = self.ahead.notified() => {}
            () = self.doubt.notified() => {}
        }
    }

    /// The claim's own key has been watched since its grant.
    async fn watch(&mut self) -> Result<Watched> {
        Ok(Watched::SinceTheGrant)
    }

    /// Sends nothing itself: heartbeats keep the session alive and show which keys it has.
    async fn renew(&mut self, _ttl: Duration) -> Result<Renewal> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        if self.take_wake_up().await {
            self.require_new_proof();
        }
        let (Some(session), Some(mut held)) =
            (self.membership.as_ref().map(|membership| membership.session().clone()), self.held)
        else {
            return Ok(Renewal::Lost(self.lost.unwrap_or(LossReason::Gone)));
        };
        loop {
            // Subscribes before it reads the proof, so that it misses no later proof.
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
            call.within(proven).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
        }
    }

    async fn release(&mut self) -> Result<Release> {
        self.listens = false;
        let call = &Call::begin(&self.request.clock, self.request.patience);
        match self.give_back(call).await {
            Err(e) if !e.is_transient() => self.handle_refused_release(call, e),
            release => release,
        }
    }
}

impl Drop for EtcdClaim {
    /// A claim that is dropped without a release leaves its key, and its unanswered attempts, to the session, which
    /// removes them.
    fn drop(&mut self) {
        if self.place.is_none() && self.uncertain.is_empty() || self.shared.is_forked() {
            return;
        }
        self.shared.numbers.retire();
        if let Some(membership) = &self.membership {
            let (own, leases) = (self.own.clone(), std::mem::take(&mut self.uncertain));
            membership.session().add_abandoned(Abandoned { own, leases });
        }
    }
}
