//! One owner's business with one lock on a majority of nodes: try, renew, release.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Attempt, Busy, Cause, Grant, Release, Renewal};
use lock_core::{Done, Error, FencingToken, Instant, Label, Owner, Result};
use lock_redis::node as redis;

use crate::node::{Ask, Freed, Held, Kept, Keys, Node, Tells};
use crate::quorum::{Quorum, kept_by};
use crate::round::{Failure, Order, Tried};

/// One owner on its way to one lock, or with it.
#[derive(Debug)]
pub struct Candidate<N> {
    quorum: Quorum<N>,
    owner: Owner,
    label: Label,
    /// Of the present try.
    ask: Ask,
    tries: u64,
    /// Tries that a node may still have something of, and until when.
    left_behind: Vec<(Instant, Ask)>,
    /// The lock's token, once it was granted.
    token: Option<FencingToken>,
    /// How many tries in a row nobody won.
    splits: u32,
    /// The nodes that have given the lock up.
    freed: BTreeSet<usize>,
}

/// The longest pause after a try that nobody won.
const LONGEST_SPLIT: Duration = Duration::from_millis(250);

impl<N: Node> Candidate<N> {
    /// `owner`, who has asked for nothing yet.
    pub fn new(
        quorum: Quorum<N>,
        keys: Arc<Keys>,
        owner: Owner,
        label: Label,
        ttl: Duration,
    ) -> Candidate<N> {
        let value = redis::held(&owner, 0, &label).into();
        let ask = Ask { keys, value, earlier: Arc::new([]), ttl };
        Candidate {
            quorum,
            owner,
            label,
            ask,
            tries: 0,
            left_behind: Vec::new(),
            token: None,
            splits: 0,
            freed: BTreeSet::new(),
        }
    }

    /// As [`Claim::attempt`](lock_core::driver::Claim::attempt), until `ends`.
    pub async fn attempt(&mut self, ends: Instant) -> Result<Attempt> {
        // Asked anew, the nodes that came late to the grant might agree on another token.
        if let Some(token) = self.token {
            match self.renew(self.ask.ttl, ends).await? {
                Renewal::Held { valid_for } => return Ok(Attempt::Granted(Grant { token, valid_for })),
                Renewal::Lost(_) => self.token = None,
            }
        }
        let began = self.quorum.clock().now();
        // Every second try among many: those who always ask the first alone would not see who has a majority.
        let order = if self.splits % 2 == 1 { Order::FirstAlone } else { Order::AllAtOnce };
        match self.quorum.attempt(&self.ask, ends, order).await {
            Tried::Granted { token, valid_for } => {
                self.token = Some(token);
                self.splits = 0;
                Ok(Attempt::Granted(Grant { token, valid_for }))
            }
            Tried::Failed(failure) => {
                let took = self.quorum.clock().now().since(began);
                if failure.undone {
                    self.try_anew(ends);
                }
                self.judge(failure, took)
            }
        }
    }

    /// As [`Claim::renew`](lock_core::driver::Claim::renew), until `ends`. A node that has lost the lock gets it back
    /// from the majority that has not, and counts from the next renewal on.
    pub async fn renew(&mut self, ttl: Duration, ends: Instant) -> Result<Renewal> {
        let (ask, patience) = (Ask { ttl, ..self.ask.clone() }, self.quorum.patience(ends));
        let asked = ask.clone();
        let mut answers = self.quorum.ask_all(|node| {
            let ask = asked.clone();
            async move { node.renew(ask, patience).await }
        });
        let (mut left, mut lost, mut absent, mut troubles) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        while let Some((at, answer)) = answers.recv().await {
            match answer {
                Ok(Kept::Yes { left: kept }) => left.push(kept),
                Ok(Kept::Absent) => absent.push(at),
                Ok(other) => lost.push(other),
                Err(e) => troubles.push((at, e)),
            }
        }
        if let Some(valid_for) = kept_by(self.quorum.majority(), left) {
            self.refill(&ask, &absent, ends).await;
            return Ok(Renewal::Held { valid_for });
        }
        let gone = lost.len() + absent.len();
        if gone > self.quorum.nodes().len() - self.quorum.majority() {
            return Ok(Renewal::Lost(cause(&lost, self.quorum.majority())));
        }
        Err(self.trouble(&troubles, Done::Unknown))
    }

    /// As [`Claim::release`](lock_core::driver::Claim::release), until `ends`.
    pub async fn release(&mut self, ends: Instant) -> Result<Release> {
        let now = self.quorum.clock().now();
        self.left_behind.retain(|(until, _)| now < *until);
        let mut asks: Vec<Ask> = self.left_behind.iter().map(|(_, ask)| ask.clone()).collect();
        asks.push(self.ask.clone());
        let patience = self.quorum.patience(ends);
        let mut answers = self.quorum.ask_all(|node| {
            let asks = asks.clone();
            async move {
                let mut freed = Freed::No;
                for ask in asks {
                    freed = node.release(ask, Tells::Waiters, patience).await?;
                }
                Ok(freed)
            }
        });
        let (mut heard, mut troubles) = (Vec::new(), Vec::new());
        while let Some((at, answer)) = answers.recv().await {
            match answer {
                Ok(Freed::Yes { others }) => {
                    self.freed.insert(at);
                    heard.push(others);
                }
                Ok(Freed::No) => {}
                Err(e) => troubles.push((at, e)),
            }
            if self.freed.len() >= self.quorum.majority() {
                self.freed.clear();
                return Ok(Release::Released { others: others_of(&heard) });
            }
        }
        let unheard = troubles.iter().filter(|(at, _)| !self.freed.contains(at)).count();
        match self.freed.len() + unheard >= self.quorum.majority() {
            true => Err(self.trouble(&troubles, Done::Unknown)),
            // It had a majority no longer, or never.
            false => Ok(Release::NotHeld),
        }
    }

    /// What a node forgets late of the try before is not the next one's.
    fn try_anew(&mut self, ends: Instant) {
        let now = self.quorum.clock().now();
        self.left_behind.retain(|(until, _)| now < *until);
        self.left_behind.push((ends + self.ask.ttl, self.ask.clone()));
        self.ask.earlier = self.left_behind.iter().map(|(_, ask)| ask.value.clone()).collect();
        self.tries += 1;
        self.ask.value = redis::held(&self.owner, self.tries, &self.label).into();
    }

    async fn refill(&self, ask: &Ask, absent: &[usize], ends: Instant) {
        let Some(token) = self.token else { return };
        let (refilled, mut answers) = tokio::sync::mpsc::unbounded_channel();
        let patience = self.quorum.patience(ends);
        for at in absent {
            let ask = ask.clone();
            self.quorum.ask(
                *at,
                &refilled,
                |answer| answer,
                |node| async move { node.refill(ask, token, patience).await },
            );
        }
        drop(refilled);
        // Waited for: none of them is on its way any more when the lock is released.
        while answers.recv().await.is_some() {}
    }

    /// What a try that came to nothing means.
    fn judge(&mut self, failure: Failure, took: Duration) -> Result<Attempt> {
        let Failure { yes, no, sits_out, troubles, leaves, stood_back, .. } = failure;
        let majority = self.quorum.majority();
        if no.iter().any(|held| held.left.is_none()) {
            return Err(Error::rejected(
                "the key has no expiry, so no lock client has written it; take another name or prefix, or delete the key",
            ));
        }
        if !stood_back && (yes + no.len() < majority || no.is_empty()) {
            let done = if leaves { Done::Unknown } else { Done::No };
            if !sits_out.is_empty() && yes + no.len() + sits_out.len() >= majority {
                return Err(self.quarantined(&sits_out, majority - yes.min(majority - 1), done));
            }
            return Err(self.trouble(&troubles, done));
        }
        Ok(Attempt::Busy(match self.leader(&no) {
            Some(holder) => {
                self.splits = 0;
                Busy {
                    queued: leaves,
                    free_in: free_in(&no, majority.saturating_sub(yes)),
                    holder: Some(holder),
                }
            }
            // Several have had a part each, or somebody has a majority with nodes that can't be asked: nobody knows. Who
            // tries again at once meets the same others again.
            None => {
                self.splits += 1;
                let pause = took.saturating_mul(1 << self.splits.min(8)).min(LONGEST_SPLIT);
                Busy { queued: leaves, free_in: Some(pause), holder: None }
            }
        }))
    }

    /// Who has a majority.
    fn leader(&self, no: &[Held]) -> Option<Box<lock_core::driver::Entry>> {
        let votes = |value: &[u8]| no.iter().filter(|held| held.value == value).count();
        let agree = |other: &Held| {
            no.iter().filter(|held| (&held.value, held.token) == (&other.value, other.token)).count()
        };
        let held = no.iter().max_by_key(|held| (votes(&held.value), agree(held), held.token))?;
        (votes(&held.value) >= self.quorum.majority()).then(|| {
            let Held { value, left, now, .. } = held.clone();
            // The token that a majority has acknowledged: a node that came late to the grant may have another.
            let token = held.token.filter(|_| agree(held) >= self.quorum.majority());
            Box::new(redis::entry(value, left, token, now))
        })
    }

    fn quarantined(&self, sits_out: &[(usize, Duration)], needed: usize, done: Done) -> Error {
        let mut left: Vec<Duration> = sits_out.iter().map(|(_, left)| *left).collect();
        left.sort_unstable();
        let retry_in = left.get(needed.saturating_sub(1)).or(left.last()).copied().unwrap_or_default();
        let nodes: Vec<String> = sits_out
            .iter()
            .map(|(at, left)| {
                format!("{} in {:.1} s", self.quorum.nodes()[*at].address(), left.as_secs_f64())
            })
            .collect();
        Error::unavailable(
            done,
            format!(
                "too few of the {} nodes have a vote: {} may have forgotten locks, and vote again when none of those can \
                 be held any more ({}). If nobody holds anything, `lock init` gives them their votes at once",
                self.quorum.nodes().len(),
                sits_out.len(),
                nodes.join(", ")
            ),
        )
        .with_retry_in(retry_in)
    }

    /// Too few nodes answered.
    fn trouble(&self, troubles: &[(usize, Error)], done: Done) -> Error {
        let nodes: Vec<String> = troubles
            .iter()
            .map(|(at, e)| format!("{}: {}", self.quorum.nodes()[*at].address(), e.message()))
            .collect();
        let message = format!(
            "a majority of the {} nodes did not agree in time; {}",
            self.quorum.nodes().len(),
            if nodes.is_empty() { "what they said came too late".to_owned() } else { nodes.join("; ") }
        );
        let refusals = troubles.iter().filter(|(_, e)| !e.is_transient()).count();
        if refusals > self.quorum.nodes().len() - self.quorum.majority() {
            return Error::rejected(message);
        }
        Error::unavailable(done, message)
    }
}

/// When so many of the nodes that hold it for others are free.
fn free_in(no: &[Held], needed: usize) -> Option<Duration> {
    let mut left: Vec<Duration> = no.iter().filter_map(|held| held.left).collect();
    left.sort_unstable();
    left.get(needed.checked_sub(1)?).copied()
}

/// What a majority says, or else that it is gone: a node may have somebody else's try, or a release may be on its way.
fn cause(lost: &[Kept], majority: usize) -> Cause {
    let said = |what| lost.iter().filter(|kept| **kept == what).count();
    if said(Kept::Revoked) > 0 {
        Cause::Revoked
    } else if said(Kept::Taken) >= majority {
        Cause::Taken
    } else {
        Cause::Gone
    }
}

/// Whether somebody waits elsewhere: if a node says so; no, if all that could say said no.
fn others_of(heard: &[Option<bool>]) -> Option<bool> {
    match heard.contains(&Some(true)) {
        true => Some(true),
        false if heard.contains(&None) => None,
        false => Some(false),
    }
}
