//! The remains of a failed try, and the waiters that are woken: one candidate on nodes whose answers are
//! scripted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::driver::{Attempt, Busy, Queueing, Release, Request};
use lock_core::{Clock, Effect, Error, FencingToken, Instant, Label, Name, Owner, Random, Result};
use lock_redlock::{Ask, Candidate, Freed, Held, Kept, Keys, Node, Quorum, Tells, Vote};

use super::{PATIENCE, TTL};

/// The longest time that a node may take for an answer that a majority waits for.
const NODE_PATIENCE: Duration = PATIENCE.checked_div(10).expect("10 is not zero");

/// The answer to one grant.
#[derive(Clone, Copy, Debug)]
enum GrantAnswer {
    Yes(u64),
    /// The lock is the owner's with this value.
    No(&'static str),
    /// The answer is lost.
    Nothing,
    /// The request did not arrive: there is no connection.
    Refused,
}
use GrantAnswer::{No, Nothing, Refused, Yes};

/// A node that answers each grant as scripted, and raises no token.
#[derive(Debug)]
struct Scripted {
    votes: Mutex<VecDeque<GrantAnswer>>,
    /// The earlier values of its owner that each grant named.
    asked: Mutex<Vec<Vec<Arc<str>>>>,
    /// The values that were released, and whether waiters were woken.
    given_up: Mutex<Vec<(Arc<str>, Tells)>>,
    /// The value whose releases are not answered.
    unanswered: Mutex<Option<Arc<str>>>,
    /// The number of releases that find no connection, before one is there.
    unconnected: Mutex<u32>,
    /// True if its vote is cast after the next release.
    votes_late: Mutex<bool>,
    /// The longest time that each release may take.
    patience: Mutex<Vec<Duration>>,
    /// The answer to a look.
    shows: Mutex<Shows>,
}

/// The answer of a node to a look.
#[derive(Clone, Copy, Debug, Default)]
enum Shows {
    #[default]
    NoHolder,
    Holder(&'static str),
    /// The node never answers.
    Silence,
}

impl Node for Scripted {
    fn address(&self) -> &str {
        "scripted"
    }

    fn on_arrival(&self, _: Instant) -> Option<i64> {
        None
    }

    async fn grant(&self, ask: Ask, _: Option<FencingToken>, _: Duration) -> Result<Vote> {
        self.asked.lock().unwrap().push(ask.earlier.to_vec());
        match self.votes.lock().unwrap().pop_front().expect("an answer for each time that it is asked") {
            Yes(token) => Ok(Vote::Yes { token: FencingToken::new(token).unwrap(), left: TTL }),
            No(value) => Ok(Vote::No(held(value))),
            Nothing => Err(Error::unavailable(Effect::Unknown, "no answer in time")),
            Refused => Err(Error::unavailable(Effect::NotApplied, "connection refused")),
        }
    }

    async fn look(&self, _: Ask, _: Duration) -> Result<Option<Held>> {
        let shows = *self.shows.lock().unwrap();
        match shows {
            Shows::NoHolder => Ok(None),
            Shows::Holder(value) => Ok(Some(held(value))),
            Shows::Silence => std::future::pending().await,
        }
    }

    async fn raise(&self, _: Ask, _: FencingToken, _: FencingToken, _: Duration) -> Result<bool> {
        Ok(false)
    }

    async fn renew(&self, _: Ask, _: Duration) -> Result<Kept> {
        Ok(Kept::Absent)
    }

    async fn refill(&self, _: Ask, _: FencingToken, _: Duration) -> Result<bool> {
        Ok(false)
    }

    async fn release(&self, ask: Ask, tells: Tells, patience: Duration) -> Result<Freed> {
        self.patience.lock().unwrap().push(patience);
        let fewer = self.unconnected.lock().unwrap().checked_sub(1);
        if let Some(fewer) = fewer {
            *self.unconnected.lock().unwrap() = fewer;
            return Err(Error::unavailable(Effect::NotApplied, "no connection in time"));
        }
        self.given_up.lock().unwrap().push((ask.value.clone(), tells));
        if self.unanswered.lock().unwrap().as_ref() == Some(&ask.value) {
            return Err(Error::unavailable(Effect::Unknown, "no answer in time"));
        }
        match std::mem::take(&mut *self.votes_late.lock().unwrap()) {
            true => Ok(Freed::No),
            false => Ok(Freed::Yes { others: None }),
        }
    }
}

fn held(value: &str) -> Held {
    Held { value: value.into(), left: Some(TTL), token: Some(1), now: 1_000_000 }
}

/// Some nodes, and the candidate that tries to get a lock there.
struct Site {
    nodes: Vec<Arc<Scripted>>,
    candidate: Candidate<Scripted>,
}

impl Site {
    /// Scripts the answers of each node, one for each grant.
    fn of<const N: usize>(votes: [&[GrantAnswer]; N]) -> Site {
        let nodes: Vec<Arc<Scripted>> = votes
            .into_iter()
            .map(|votes| {
                Arc::new(Scripted {
                    votes: Mutex::new(votes.iter().copied().collect()),
                    asked: Mutex::default(),
                    given_up: Mutex::default(),
                    unanswered: Mutex::default(),
                    unconnected: Mutex::default(),
                    votes_late: Mutex::default(),
                    patience: Mutex::default(),
                    shows: Mutex::default(),
                })
            })
            .collect();
        let name = Name::new("a").unwrap();
        let keys =
            Keys { name: name.clone(), lock: b"a".into(), token: b"a~t".into(), channel: b"a~c".into() };
        let random = Random::system();
        let mut request = Request::new(name, Owner::mint(&random), TTL, PATIENCE, Clock::system());
        (request.waits, request.label) = (Queueing::Queued, Label::new("a test"));
        let quorum = Quorum::new(nodes.clone(), Clock::system(), NODE_PATIENCE);
        let candidate = Candidate::new(quorum, Arc::new(keys), request, random);
        Site { nodes, candidate }
    }

    /// Makes a try that fails because of another candidate. Returns whether something of it may be left.
    async fn loses(&mut self) -> bool {
        match self.candidate.attempt().await {
            Ok(Attempt::Busy(Busy { queued, .. })) => queued,
            other => panic!("expected busy, got {other:?}"),
        }
    }

    async fn wins(&mut self) {
        let attempt = self.candidate.attempt().await;
        assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}");
    }

    /// Releases. Returns the outcome and the values that each node is asked to release, once the release has come to
    /// all.
    async fn releases(&mut self) -> (Result<Release>, Vec<Vec<Arc<str>>>) {
        self.nodes.iter().for_each(|node| node.given_up.lock().unwrap().clear());
        let outcome = self.candidate.release().await;
        // A request to a node that the majority did not need goes on in a task of its own.
        let asked = async {
            while self.nodes.iter().any(|node| node.given_up.lock().unwrap().is_empty()) {
                tokio::time::sleep(NODE_PATIENCE / 10).await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.expect("every node is asked to release");
        let values = |node: &Arc<Scripted>| {
            node.given_up.lock().unwrap().iter().map(|(value, _)| value.clone()).collect()
        };
        (outcome, self.nodes.iter().map(values).collect())
    }

    /// Returns for each release on this node whether it was to wake waiters.
    fn told(&self, at: usize) -> Vec<Tells> {
        self.nodes[at].given_up.lock().unwrap().iter().map(|(_, tells)| *tells).collect()
    }

    /// Returns the earlier values that the last grant on this node named.
    fn named(&self, at: usize) -> Vec<Arc<str>> {
        self.nodes[at].asked.lock().unwrap().last().unwrap().clone()
    }
}

pub(crate) fn a_try_released_on_all_nodes_is_not_rereleased() {
    const LOST: usize = 20;
    let then = |lost: GrantAnswer| [&[lost; LOST][..], &[Yes(2)]].concat();
    let mut site = Site::of([&then(Yes(1)), &then(No("other")), &then(No("other"))]);
    run(async move {
        for _ in 0..LOST {
            assert!(!site.loses().await, "every node has answered");
        }
        site.wins().await;
        assert_eq!(site.named(0).len(), 0, "nothing is left of the failed tries");
        let (outcome, given_up) = site.releases().await;
        assert!(matches!(outcome, Ok(Release::Released { .. })), "{outcome:?}");
        for values in given_up {
            assert_eq!(values, [site.candidate.value()], "one release frees it");
        }
    });
}

/// A vote that was not answered may come late. (The votes were split between two other candidates, so the next try asks
/// the first node alone.)
pub(crate) fn a_possible_late_vote_is_released_in_background() {
    let first_alone = [No("other"), Yes(2), Yes(2)];
    let mut site =
        Site::of([&[&[Yes(1)], &first_alone[..]].concat(), &[Nothing, Yes(2)], &[No("other"), Yes(2)]]);
    run(async move {
        let first = site.candidate.value();
        assert!(site.loses().await, "a vote was not answered");
        site.loses().await;
        site.wins().await;
        assert_eq!(site.named(0), std::slice::from_ref(&first), "the grant names its value");
        let (outcome, given_up) = site.releases().await;
        assert!(matches!(outcome, Ok(Release::Released { .. })), "{outcome:?}");
        for values in given_up {
            assert_eq!(values, [site.candidate.value(), first.clone()], "the lock, then what may be left");
        }
    });
}

/// The node's vote would count against the next owners.
pub(crate) fn a_node_beyond_the_majority_is_released_too() {
    let mut site = Site::of([&[Yes(1)], &[Yes(1)], &[Yes(1)]]);
    run(async move {
        site.wins().await;
        *site.nodes[2].unconnected.lock().unwrap() = 1;
        let (outcome, given_up) = site.releases().await;
        assert!(matches!(outcome, Ok(Release::Released { .. })), "{outcome:?}");
        assert_eq!(given_up[2], [site.candidate.value()], "it is asked once more");
        let patience = site.nodes[2].patience.lock().unwrap().clone();
        assert!(
            patience.iter().all(|each| *each > NODE_PATIENCE),
            "a connection may take longer: {patience:?}"
        );
    });
}

/// The release takes another connection than the vote, and comes first.
pub(crate) fn a_vote_after_the_release_is_taken_back() {
    let mut site = Site::of([&[Yes(1)], &[Yes(1)], &[Nothing]]);
    run(async move {
        site.wins().await;
        *site.nodes[2].votes_late.lock().unwrap() = true;
        let (outcome, _) = site.releases().await;
        assert!(matches!(outcome, Ok(Release::Released { .. })), "{outcome:?}");
        let again = async {
            while site.told(2).len() < 2 {
                tokio::time::sleep(NODE_PATIENCE / 10).await;
            }
        };
        tokio::time::timeout(PATIENCE, again).await.expect("no vote is cast after a node's patience");
    });
}

/// Two of three nodes do not answer what they are asked about the first try: neither at once nor when the lock is
/// released.
pub(crate) fn what_can_not_be_given_up_keeps_no_lock() {
    let other = [No("other"), Yes(2)];
    let mut site = Site::of([&[Yes(1), Yes(2)], &other, &other]);
    run(async move {
        let first = site.candidate.value();
        for node in &site.nodes[..2] {
            *node.unanswered.lock().unwrap() = Some(first.clone());
        }
        assert!(site.loses().await, "the node may still have it");
        site.wins().await;
        assert_eq!(site.named(0), [first]);
        let (outcome, given_up) = site.releases().await;
        assert!(matches!(outcome, Ok(Release::Released { .. })), "{outcome:?}");
        for values in given_up {
            assert!(values.contains(&site.candidate.value()), "{values:?}");
        }
    });
}

/// The try after it had the same value, and every node answered that one.
pub(crate) fn a_try_not_released_anywhere_is_not_forgotten() {
    let other = No("other");
    let mut site = Site::of([&[other, Yes(1), Yes(2)], &[Nothing, other, Yes(2)], &[other, other, Yes(2)]]);
    run(async move {
        let first = site.candidate.value();
        assert!(site.loses().await, "its vote may come late");
        site.loses().await;
        site.wins().await;
        assert_eq!(site.named(0), [first]);
    });
}

/// After the votes were split, each candidate asks one node before the others. That node is silent at first, or its
/// connection is gone after its yes.
pub(crate) fn a_node_asked_ahead_is_not_forgotten() {
    let third = [No("c"), No("c"), Yes(3)];
    let silent = Site::of([&[Yes(1), Nothing, No("c"), Yes(3)], &[No("b"), Yes(2), Yes(2), Yes(3)], &third]);
    let gone = Site::of([&[Yes(1), Yes(2), Refused, Yes(3), Yes(3)], &[No("b"), Yes(2), Yes(3)], &third]);
    for (what, mut site) in [("silent", silent), ("gone", gone)] {
        run(async move {
            assert!(!site.loses().await, "{what}: every node has answered");
            let second = site.candidate.value();
            assert!(site.loses().await, "{what}: something of it may be there");
            site.wins().await;
            assert_eq!(site.named(1).last(), Some(&second), "{what}");
        });
    }
}

/// A candidate that defers takes no vote from a candidate that needs it.
pub(crate) fn a_deferring_candidate_sees_the_majority_try() {
    let mut site = Site::of([&[Yes(1), No("a")], &[No("b")], &[No("c")]]);
    run(async move {
        site.loses().await;
        site.nodes[1..].iter().for_each(|node| *node.shows.lock().unwrap() = Shows::Holder("winner"));
        let outcome = site.candidate.attempt().await;
        assert!(matches!(outcome, Ok(Attempt::Busy(Busy { holder: Some(_), .. }))), "{outcome:?}");
        let asked = site.nodes.iter().map(|node| node.asked.lock().unwrap().len());
        assert_eq!(asked.collect::<Vec<_>>(), [2, 1, 1]);
    });
}

/// Once a majority shows one try, or none can any more, a missing answer decides nothing.
pub(crate) fn a_deferring_candidate_awaits_only_deciding_nodes() {
    let decided = Shows::Holder("a");
    for (shows, sees) in [([decided, decided, Shows::Silence], true), ([Shows::NoHolder; 3], false)] {
        let mut site = Site::of([&[Yes(1), No("a")], &[No("b")], &[No("c")], &[No("d")], &[No("e")]]);
        run(async move {
            site.loses().await;
            *site.nodes[1].shows.lock().unwrap() = Shows::Silence;
            for (node, shows) in site.nodes[2..].iter().zip(shows) {
                *node.shows.lock().unwrap() = shows;
            }
            let outcome = tokio::time::timeout(PATIENCE, site.candidate.attempt()).await;
            let Ok(Ok(Attempt::Busy(busy))) = outcome else {
                panic!("it waits for silent nodes: {outcome:?}")
            };
            assert_eq!(busy.holder.is_some(), sees, "{busy:?}");
        });
    }
}

/// A client that died during its try may have left its value on the first node. The other nodes decide.
pub(crate) fn a_candidate_deferring_twice_asks_all_nodes() {
    let mut site =
        Site::of([&[Yes(1), No("a"), No("d"), No("d"), No("d")], &[No("b"), Yes(2)], &[No("c"), Yes(2)]]);
    run(async move {
        for _ in 0..4 {
            site.loses().await;
        }
        site.wins().await;
    });
}

/// Another candidate that met these votes took the try for the holder, and waits for its release.
pub(crate) fn waiters_are_notified_of_a_withdrawn_majority() {
    let mut site = Site::of([&[Yes(5)], &[Yes(7)], &[No("other")]]);
    run(async move {
        // The first node did not raise its token to the second's.
        let outcome = site.candidate.attempt().await;
        assert!(!matches!(outcome, Ok(Attempt::Granted(_))), "{outcome:?}");
        assert_eq!([site.told(0), site.told(1)], [[Tells::Waiters], [Tells::Waiters]]);
        assert_eq!(site.told(2), []);
    });
}

pub(crate) fn a_minority_is_taken_back_in_silence() {
    let mut site = Site::of([&[Yes(5)], &[No("b")], &[No("c")]]);
    run(async move {
        site.loses().await;
        assert_eq!(site.told(0), [Tells::NoWaiter]);
    });
}

/// On one thread: what a node's task does without waiting is done before the other tasks look.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}
