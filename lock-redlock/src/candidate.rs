//! One owner's calls for one lock on a majority of nodes: try, renew, release.

mod outcome;
mod release_answers;
mod renewal;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use lock_core::driver::{Attempt, Busy, Grant, Queueing, Release, Renewal, Request};
use lock_core::{Clock, Effect, FencingToken, Instant, Random, Result};
use lock_redis::node as redis;

use self::release_answers::ReleaseAnswers;
use self::renewal::Absent;
use crate::node::{Ask, Freed, Keys, Node, Tells};
use crate::quorum::Quorum;
use crate::round::{Order, Tried};

/// One owner that tries to get one lock, or holds it.
#[derive(Debug)]
pub struct Candidate<N> {
    quorum: Quorum<N>,
    request: Request,
    random: Random,
    /// The request of the present try.
    ask: Ask,
    tries: u64,
    /// Something of the present value may be left on a node, or arrive there late.
    may_be_left: bool,
    /// Earlier tries of which a node may still have something, and until when.
    earlier_tries: Vec<(Instant, Ask)>,
    /// The lock's token, once it was granted.
    token: Option<FencingToken>,
    /// The number of tries in a row that no candidate won.
    splits: u32,
    /// The order of the next try.
    order: Order,
    /// The value that the first node had when the last try deferred to its holder.
    deferred_to: Option<Vec<u8>>,
    /// Until when a vote of the last try may still be cast.
    votes_end: Instant,
    /// The nodes' answers to releases of the present hold.
    release_answers: ReleaseAnswers,
    /// The nodes that have lost the present hold.
    absent: Absent,
}

impl<N: Node> Candidate<N> {
    /// Creates a candidate that has asked for nothing yet.
    pub fn new(quorum: Quorum<N>, keys: Arc<Keys>, request: Request, random: Random) -> Candidate<N> {
        let value = redis::held(&request.owner, 0, &request.label).into();
        let ask = Ask { keys, value, earlier: Arc::new([]), ttl: request.ttl, longest: request.ttl };
        Candidate {
            votes_end: request.clock.now(),
            quorum,
            request,
            random,
            ask,
            tries: 0,
            may_be_left: false,
            earlier_tries: Vec::new(),
            token: None,
            splits: 0,
            order: Order::AllAtOnce,
            deferred_to: None,
            release_answers: ReleaseAnswers::default(),
            absent: Absent::default(),
        }
    }

    /// Returns the value of the lock's key on the nodes while this owner holds it.
    pub fn value(&self) -> Arc<str> {
        self.ask.value.clone()
    }

    /// As [`Claim::attempt`](lock_core::driver::Claim::attempt). A request that looks only once tries again while
    /// several candidates have a part of the nodes each: no client holds the lock then, and whether one holds it is the
    /// question.
    pub async fn attempt(&mut self) -> Result<Attempt> {
        let ends = self.ends();
        loop {
            let outcome = self.try_once(ends).await;
            let Some(pause) = self.looks_again(&outcome) else { return outcome };
            if self.request.clock.now() + pause * 2 >= ends {
                return outcome;
            }
            self.request.clock.sleep(self.random.up_to(pause)).await;
        }
    }

    async fn try_once(&mut self, ends: Instant) -> Result<Attempt> {
        // The lock is renewed and not asked for anew: otherwise the nodes that granted late might agree on another
        // token.
        if let Some(token) = self.token {
            match self.renew_until(self.ask.ttl, ends).await? {
                Renewal::Held { valid_for, age } => {
                    return Ok(Attempt::Granted(Grant::new(token, valid_for).with_age(age)));
                }
                Renewal::Lost(_) => self.token = None,
            }
        }
        let began = self.request.clock.now();
        self.votes_end = began + self.quorum.patience_for_now(ends);
        match self.quorum.attempt(&self.ask, ends, self.order).await {
            Tried::Granted { token, valid_for } => {
                self.token = Some(token);
                self.record_majority();
                (self.release_answers, self.absent) = (ReleaseAnswers::default(), Absent::default());
                // Votes that the majority did not need were not waited for, and may still arrive.
                self.may_be_left = true;
                Ok(Attempt::Granted(Grant::new(token, valid_for)))
            }
            Tried::Failed(failure) => {
                let took = self.request.clock.now().since(began);
                self.may_be_left |= failure.leaves;
                if failure.undone {
                    self.try_anew(ends);
                }
                self.judge(failure, took)
            }
        }
    }

    /// Returns the longest pause before another try, if this call makes one. A request that waits is told when to try
    /// again.
    fn looks_again(&self, outcome: &Result<Attempt>) -> Option<Duration> {
        match outcome {
            Ok(Attempt::Busy(Busy { holder: None, free_in, .. })) if self.request.waits == Queueing::No => {
                *free_in
            }
            _ => None,
        }
    }

    /// As [`Claim::release`](lock_core::driver::Claim::release). A node that no longer had the lock at the first
    /// release does not count, even if it has got the lock again since.
    ///
    /// A majority's answers are enough. The other nodes are asked in the background, for as long as this call may take:
    /// what a node keeps would count against the lock's next owners, and with what other nodes keep of other holds it
    /// could be a majority.
    pub async fn release(&mut self) -> Result<Release> {
        let (now, ends) = (self.request.clock.now(), self.ends());
        self.earlier_tries.retain(|(until, _)| now < *until);
        let earlier: Vec<Ask> = self.earlier_tries.iter().map(|(_, ask)| ask.clone()).collect();
        let limits = Limits { clock: self.request.clock.clone(), votes_end: self.votes_end, ends };
        let ask = self.ask.clone();
        let mut answers =
            self.quorum.ask_all(|node| forget(node, ask.clone(), earlier.clone(), limits.clone()));
        let (mut heard, mut troubles) = (Vec::new(), Vec::new());
        while let Some((at, answer)) = answers.next().await {
            match answer {
                Ok(Freed::Yes { others }) => {
                    self.release_answers.record(at, true);
                    heard.push(others);
                }
                Ok(Freed::No) => self.release_answers.record(at, false),
                Err(e) => troubles.push((at, e)),
            }
            if self.release_answers.freed() >= self.quorum.majority() {
                self.release_answers = ReleaseAnswers::default();
                return Ok(Release::Released { others: others_of(&heard) });
            }
        }
        let unheard = troubles.iter().filter(|(at, _)| !self.release_answers.has_answered(*at)).count();
        match self.release_answers.freed() + unheard >= self.quorum.majority() {
            true => Err(self.trouble(&troubles, Effect::Unknown)),
            // No majority held it any more, or none ever did.
            false => Ok(Release::NotHeld),
        }
    }

    /// Returns when a call that begins now ends.
    fn ends(&self) -> Instant {
        self.request.clock.now() + self.request.patience
    }

    /// Gives the next try another value, because a node may forget the previous one late. A value for which all nodes
    /// have answered is gone from them. The next grants and the release name the other values.
    fn try_anew(&mut self, ends: Instant) {
        let now = self.request.clock.now();
        self.earlier_tries.retain(|(until, _)| now < *until);
        if std::mem::take(&mut self.may_be_left) {
            self.earlier_tries.push((ends + self.ask.ttl, self.ask.clone()));
        }
        self.ask.earlier = self.earlier_tries.iter().map(|(_, ask)| ask.value.clone()).collect();
        self.tries += 1;
        self.ask.value = redis::held(&self.request.owner, self.tries, &self.request.label).into();
    }
}

/// Until when a node is asked to forget.
#[derive(Clone)]
struct Limits {
    clock: Clock,
    /// Until when its vote may still be cast.
    votes_end: Instant,
    /// The end of the call.
    ends: Instant,
}

/// Asks a node to forget the lock, and what it may have of earlier tries. A connection that breaks meanwhile costs one
/// try of two.
///
/// A node that has nothing is asked again when no vote can be cast any more: on another connection than the vote's, the
/// release may have come first.
async fn forget<N: Node>(node: Arc<N>, ask: Ask, earlier: Vec<Ask>, limits: Limits) -> Result<Freed> {
    let Limits { clock, votes_end, ends } = limits;
    let once = || forget_once(node.clone(), ask.clone(), earlier.clone(), ends.since(clock.now()));
    let outcome = match once().await {
        Err(error) if error.is_transient() && clock.now() < ends => once().await,
        outcome => outcome,
    };
    if matches!(outcome, Ok(Freed::No)) && clock.now() < votes_end {
        clock.sleep_until(votes_end).await;
        once().await?;
    }
    outcome
}

/// The request for the lock is sent first and waits for none of the others.
async fn forget_once<N: Node>(
    node: Arc<N>,
    ask: Ask,
    earlier: Vec<Ask>,
    patience: Duration,
) -> Result<Freed> {
    let forgets = |ask| node.release(ask, Tells::Waiters, patience);
    let (freed, earlier) = join(forgets(ask), join_all(earlier.into_iter().map(forgets))).await;
    match freed? {
        // The key had the lock's value, so it had none of the earlier tries'.
        Freed::Yes { others } => Ok(Freed::Yes { others }),
        Freed::No => earlier.into_iter().collect::<Result<Vec<Freed>>>().map(|_| Freed::No),
    }
}

/// Returns whether other clients wait: yes if one node says so, no if all nodes say that none does, else unknown.
fn others_of(heard: &[Option<bool>]) -> Option<bool> {
    match heard.contains(&Some(true)) {
        true => Some(true),
        false if heard.contains(&None) => None,
        false => Some(false),
    }
}
