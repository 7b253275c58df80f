//! One try for the lock: a majority votes for it, and then confirms that it keeps the same token.
//!
//! A node mints a token of its own with every grant: as a rule the one that was proposed to all nodes (`proposal.rs`), so
//! that a majority agrees at once. The highest token of a majority becomes the lock's. Each of the other nodes raises its
//! own token to it, if the very grant that it voted with still exists (the same owner *and* the same token). Therefore the
//! token on a node rises with every grant, and an owner for which a majority has confirmed the token T was granted the
//! lock on those nodes while their token was T. The next holder's majority shares a node with that one. On that node the
//! next holder was granted the lock later, and therefore with a higher token. This needs no clock, and it also holds when
//! requests arrive more than once.

use std::time::Duration;

use lock_core::{Error, FencingToken, Instant};

use crate::inspection::most_that_agree;
use crate::node::{Ask, Held, Node, Tells, Vote};
use crate::quorum::{Answer, Quorum, kept_by};
use crate::requests::Requests;

/// The outcome of a try.
#[derive(Debug)]
pub(crate) enum Tried {
    /// A majority has confirmed that it keeps this token, and the lock for so long.
    Granted { token: FencingToken, valid_for: Duration },
    /// No majority has.
    Failed(Failure),
}

/// Why a try failed.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// The number of nodes that voted yes. They have been asked to forget the vote.
    pub(crate) yes: usize,
    pub(crate) no: Vec<Held>,
    /// The nodes without a vote, and how long each still has none.
    pub(crate) sits_out: Vec<(usize, Duration)>,
    pub(crate) troubles: Vec<(usize, Error)>,
    /// Something of this try's may be left on a node.
    pub(crate) leaves: bool,
    /// The node that was asked ahead has the lock for another candidate. The others were only looked at.
    pub(crate) deferred: bool,
    /// A node was asked to forget this try, and may do so late. The next try needs another value to be told from this
    /// one.
    pub(crate) undone: bool,
}

/// The order in which the nodes are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    AllAtOnce,
    /// A single node first, the first one that answers, and then the others. Of several candidates with a part of the
    /// votes each, only one gets that node.
    FirstAlone,
}

/// An event during a try.
enum Event {
    Vote(Answer<Vote>),
    Raised(Answer<bool>),
}

struct Round<'a, N> {
    quorum: &'a Quorum<N>,
    ask: &'a Ask,
    ends: Instant,
    under_way: Requests<Event>,
    /// The number of nodes that have not voted yet. `raising` counts the raises that are not answered yet.
    voting: usize,
    raising: usize,
    /// The node that said yes before the others were asked.
    ahead: Option<usize>,
    yes: Vec<Yes>,
    token: Option<FencingToken>,
    failure: Failure,
}

/// The outcome of asking one node ahead of the others.
#[derive(Default)]
struct Ahead {
    /// The node that said yes.
    yes: Option<usize>,
    /// As in a [`Failure`].
    leaves: bool,
}

struct Yes {
    at: usize,
    token: FencingToken,
    left: Duration,
    acknowledged: bool,
}

impl<N: Node> Quorum<N> {
    /// Tries once to take the lock, until `ends`.
    pub(crate) async fn attempt(&self, ask: &Ask, ends: Instant, order: Order) -> Tried {
        let proposed = self.proposes();
        let ahead = match order {
            Order::AllAtOnce => Ahead::default(),
            Order::FirstAlone => match self.asks_ahead(ask, proposed, ends).await {
                Ok(ahead) => ahead,
                Err(failure) => return Tried::Failed(failure),
            },
        };
        let mut under_way = Requests::new();
        let patience = self.patience_for_now(ends);
        for at in 0..self.nodes().len() {
            let ask = ask.clone();
            self.ask(at, &mut under_way, Event::Vote, |node| async move {
                node.grant(ask, proposed, patience).await
            });
        }
        let mut round = Round {
            quorum: self,
            ask,
            ends,
            under_way,
            voting: self.nodes().len(),
            raising: 0,
            ahead: ahead.yes,
            yes: Vec::new(),
            token: None,
            failure: Failure { leaves: ahead.leaves, ..Failure::default() },
        };
        while round.is_open() {
            match round.under_way.next().await {
                Some(Event::Vote(vote)) => round.vote(vote),
                Some(Event::Raised(raised)) => round.raised(raised),
                None => break,
            }
        }
        match round.granted() {
            Some((token, valid_for)) => Tried::Granted { token, valid_for },
            None => Tried::Failed(round.undo().await),
        }
    }

    /// Asks the nodes one by one until one gives a decisive answer. If that is another owner's lock, this fails with
    /// what the other nodes show. If it is a yes, or if no node gives a decisive answer, the caller asks all nodes
    /// next, those that were asked already once more.
    async fn asks_ahead(
        &self,
        ask: &Ask,
        proposed: Option<FencingToken>,
        ends: Instant,
    ) -> Result<Ahead, Failure> {
        let mut leaves = false;
        for (at, node) in self.nodes().iter().enumerate() {
            match node.grant(ask.clone(), proposed, self.patience_for_now(ends)).await {
                Ok(Vote::Yes { .. }) => return Ok(Ahead { yes: Some(at), leaves }),
                Ok(Vote::No(held)) => {
                    let no = self.looks_around(ask, (at, held), ends).await;
                    return Err(Failure { no, leaves, deferred: true, ..Failure::default() });
                }
                Ok(Vote::SitsOut { .. } | Vote::Disagrees { .. }) => {}
                // The node may have granted it, although the answer was lost.
                Err(e) => leaves |= e.may_have_taken_effect(),
            }
        }
        Ok(Ahead { yes: None, leaves })
    }
}

impl<N: Node> Quorum<N> {
    /// Looks at the other nodes after one has refused, until a majority shows the same holder or none can any more.
    /// Returns the holders that the nodes show. A look takes no vote from a candidate that needs it.
    async fn looks_around(&self, ask: &Ask, (refused, held): (usize, Held), ends: Instant) -> Vec<Held> {
        let patience = self.patience_for_now(ends);
        let others = (0..self.nodes().len()).filter(|at| *at != refused);
        let mut looks = self.ask_some(others, |node| {
            let ask = ask.clone();
            async move { node.look(ask, patience).await }
        });
        let (mut shown, mut to_come) = (vec![held], self.nodes().len() - 1);
        loop {
            let most = most_that_agree(&shown);
            if most >= self.majority() || most + to_come < self.majority() {
                return shown;
            }
            let Some((_, look)) = looks.next().await else { return shown };
            to_come -= 1;
            shown.extend(look.ok().flatten());
        }
    }
}

impl<N: Node> Round<'_, N> {
    /// Returns whether the try is still undecided.
    fn is_open(&self) -> bool {
        let acknowledged = self.acknowledged().count();
        let possible = match self.token {
            None => self.yes.len() + self.voting,
            Some(_) => acknowledged + self.raising + self.voting,
        };
        acknowledged < self.quorum.majority() && possible >= self.quorum.majority()
    }

    fn acknowledged(&self) -> impl Iterator<Item = &Yes> {
        self.yes.iter().filter(|yes| yes.acknowledged)
    }

    fn granted(&self) -> Option<(FencingToken, Duration)> {
        let kept = kept_by(self.quorum.majority(), self.acknowledged().map(|yes| yes.left))?;
        Some((self.token?, kept))
    }

    fn vote(&mut self, (at, vote): Answer<Vote>) {
        self.voting -= 1;
        // A grant that this node made ahead of the others may still exist, unless its answer tells whose the lock is
        // now.
        self.failure.leaves |= self.ahead == Some(at) && !matches!(vote, Ok(Vote::Yes { .. } | Vote::No(_)));
        match vote {
            Ok(Vote::Yes { token, left }) => self.yes(Yes { at, token, left, acknowledged: false }),
            Ok(Vote::No(held)) => self.failure.no.push(held),
            Ok(Vote::SitsOut { left }) => self.failure.sits_out.push((at, left)),
            Ok(Vote::Disagrees { agreed }) => {
                self.failure.troubles.push((at, Error::rejected(disagrees(agreed))));
            }
            Err(e) => self.trouble(at, e),
        }
    }

    fn yes(&mut self, yes: Yes) {
        self.yes.push(yes);
        match self.token {
            Some(token) => self.compare_token(self.yes.len() - 1, token),
            None if self.yes.len() == self.quorum.majority() => {
                let Some(token) = self.yes.iter().map(|yes| yes.token).max() else { return };
                self.token = Some(token);
                (0..self.yes.len()).for_each(|nth| self.compare_token(nth, token));
            }
            None => {}
        }
    }

    /// Compares a node's token with the lock's. A node with an equal token has acknowledged it. A node with a lower
    /// token is asked to raise it. A node with a higher token granted late and does not count: the lock's token stays.
    fn compare_token(&mut self, nth: usize, token: FencingToken) {
        let yes = &mut self.yes[nth];
        if yes.token == token {
            yes.acknowledged = true;
        } else if yes.token < token {
            let patience = self.quorum.patience_for_now(self.ends);
            let (ask, granted) = (self.ask.clone(), yes.token);
            self.raising += 1;
            self.quorum.ask(yes.at, &mut self.under_way, Event::Raised, |node| async move {
                node.raise(ask, granted, token, patience).await
            });
        }
    }

    fn raised(&mut self, (at, raised): Answer<bool>) {
        self.raising -= 1;
        match raised {
            Ok(raised) => {
                let yes = self.yes.iter_mut().find(|yes| yes.at == at);
                if let Some(yes) = yes {
                    yes.acknowledged |= raised;
                }
            }
            Err(e) => self.trouble(at, e),
        }
    }

    fn trouble(&mut self, at: usize, error: Error) {
        self.failure.leaves |= error.may_have_taken_effect();
        self.failure.troubles.push((at, error));
    }

    /// Takes back what was granted, also by nodes whose vote arrives only now.
    async fn undo(mut self) -> Failure {
        while self.voting > 0 {
            match self.under_way.next().await {
                Some(Event::Vote((at, Ok(Vote::Yes { token, left })))) => {
                    self.voting -= 1;
                    self.yes.push(Yes { at, token, left, acknowledged: false });
                }
                Some(Event::Vote(vote)) => self.vote(vote),
                Some(Event::Raised(_)) => {}
                None => break,
            }
        }
        let Round { quorum, ask, ends, under_way, yes, token, mut failure, .. } = self;
        // Candidates that met a majority of these votes took this try for the holder, and wait for its release.
        let tells = if token.is_some() { Tells::Waiters } else { Tells::NoWaiter };
        let patience = quorum.patience(ends);
        // The raises that are not answered go on meanwhile.
        drop(under_way);
        let mut freed = quorum.ask_some(yes.iter().map(|yes| yes.at), |node| {
            let ask = ask.clone();
            async move { node.release(ask, tells, patience).await }
        });
        while let Some((_, answer)) = freed.next().await {
            failure.leaves |= answer.is_err();
        }
        failure.undone = !yes.is_empty();
        failure.yes = yes.len();
        failure
    }
}

/// Returns the message for a node whose other clients have agreed on another longest ttl.
pub(crate) fn disagrees(agreed: Duration) -> String {
    format!(
        "its clients have agreed on max_ttl={agreed:?}; give the same in every URL, or change it with `lock init`"
    )
}
