//! Sessions that the tests open and end, in virtual time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::Clock;

const PATIENCE: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(4);

#[derive(Debug)]
struct Session {
    number: usize,
    is_alive: AtomicBool,
    ends: Instant,
    members: Mutex<BTreeSet<&'static str>>,
}

impl Session {
    fn members(&self) -> Vec<&'static str> {
        self.members.lock().unwrap().iter().copied().collect()
    }

    fn end(&self) {
        self.is_alive.store(false, Ordering::SeqCst);
    }
}

impl Keepable for Session {
    type Member = &'static str;

    fn is_usable(&self, now: Instant) -> bool {
        self.is_alive.load(Ordering::SeqCst) && now < self.ends
    }

    fn is_in_use(&self) -> bool {
        !self.members().is_empty()
    }

    fn add_member(&self, member: &&'static str) {
        self.members.lock().unwrap().insert(*member);
    }

    fn remove_member(&self, member: &&'static str) {
        self.members.lock().unwrap().remove(member);
    }
}

/// A client, with a server that opens sessions.
struct Client {
    clock: Clock,
    sessions: Sessions<Session>,
    /// The time that the server takes to open a session.
    takes: Duration,
    opened: Mutex<usize>,
}

impl Client {
    fn new() -> Client {
        Client::of(Process::this())
    }

    fn of(process: Process) -> Client {
        let (takes, opened) = (PATIENCE / 2, Mutex::new(0));
        Client { clock: Clock::system(), sessions: Sessions::new(process), takes, opened }
    }

    fn call(&self) -> Call {
        Call::begin(&self.clock, PATIENCE)
    }

    async fn join(&self, ttl: Duration, member: &'static str) -> Option<Membership<Session>> {
        // Long enough for two sessions that are opened before this claim's.
        let call = Call::begin(&self.clock, self.takes * 4);
        match self.sessions.join(&call, ttl, &member).await? {
            Joining::Joined(membership) => Some(membership),
            Joining::Vacant(vacant) => {
                self.clock.timeout(self.takes, std::future::pending::<()>()).await;
                Some(vacant.fill(self.session(TTL), keep))
            }
        }
    }

    /// Returns a session that the server has opened, and that is certain for this long.
    fn session(&self, certain: Duration) -> Session {
        let mut opened = self.opened.lock().unwrap();
        *opened += 1;
        let ends = self.clock.now() + certain;
        Session { number: *opened, is_alive: AtomicBool::new(true), ends, members: Mutex::default() }
    }

    /// Returns the place in which a session has to be opened.
    async fn vacant(&self, member: &'static str) -> Vacant<'_, Session> {
        match self.sessions.join(&self.call(), TTL, &member).await {
            Some(Joining::Vacant(vacant)) => vacant,
            other => panic!("there is a session: {other:?}"),
        }
    }
}

/// Starts a task that runs until it is aborted.
fn keep(session: Arc<Session>) -> AbortHandle {
    let task = async move {
        let _session = session;
        std::future::pending::<()>().await;
    };
    tokio::spawn(task).abort_handle()
}

#[tokio::test(start_paused = true)]
async fn claims_of_one_ttl_open_one_session() {
    let client = Client::new();
    let (a, b, other) =
        tokio::join!(client.join(TTL, "a"), client.join(TTL, "b"), client.join(TTL * 2, "other"));
    let (a, b, other) = (a.unwrap(), b.unwrap(), other.unwrap());
    assert!(Arc::ptr_eq(a.session(), b.session()) && !Arc::ptr_eq(a.session(), other.session()));
    assert_eq!((a.session().members(), other.session().members()), (vec!["a", "b"], vec!["other"]));
    assert_eq!((a.session().number, other.session().number), (1, 2), "one after the other");
    let all: Vec<usize> = client.sessions.all().iter().map(|session| session.number).collect();
    assert_eq!(all, [1, 2], "by their ttl");
}

#[tokio::test(start_paused = true)]
async fn a_membership_ends_when_it_is_dropped() {
    let client = Client::new();
    let (a, b) = (client.join(TTL, "a").await.unwrap(), client.join(TTL, "b").await.unwrap());
    assert_eq!((*a.member(), *b.member()), ("a", "b"));
    drop(a);
    assert_eq!(b.session().members(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_an_opening_within_its_call() {
    let client = Client::new();
    let vacant = client.vacant("first").await;
    assert!(client.sessions.join(&client.call(), TTL, &"second").await.is_none());
    assert!(
        client.sessions.join(&client.call(), TTL * 2, &"third").await.is_none(),
        "one is opened at a time"
    );
    let first = vacant.fill(client.session(TTL), keep);
    assert_eq!(first.session().members(), ["first"], "a claim whose call was over has not joined");
    let second = client.join(TTL, "second").await.unwrap();
    assert!(Arc::ptr_eq(first.session(), second.session()));
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_opening_the_next_claim_opens() {
    let client = Client::new();
    let vacant = client.vacant("first").await;
    let failing = async {
        client.clock.timeout(PATIENCE / 2, std::future::pending::<()>()).await;
        drop(vacant);
    };
    let (second, ()) = tokio::join!(client.join(TTL, "second"), failing);
    assert_eq!(second.unwrap().session().members(), ["second"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_takes_no_claims() {
    let client = Client::new();
    let first = client.join(TTL, "first").await.unwrap();
    first.session().end();
    let second = client.join(TTL, "second").await.unwrap();
    assert_eq!((first.session().members(), second.session().members()), (vec!["first"], vec!["second"]));
}

#[tokio::test(start_paused = true)]
async fn an_uncertain_session_takes_no_claims() {
    let client = Client::new();
    let uncertain = client.vacant("first").await.fill(client.session(Duration::ZERO), keep);
    let second = client.join(TTL, "second").await.unwrap();
    assert_eq!((uncertain.session().number, second.session().number), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn stopped_sessions_are_not_rejoined_and_their_successors_stay() {
    let client = Client::new();
    let first = client.join(TTL, "first").await.unwrap();
    client.sessions.stop_joining(first.session());
    let second = client.join(TTL, "second").await.unwrap();
    assert_eq!(second.session().number, 2);
    client.sessions.stop_joining(first.session());
    assert!(!client.sessions.close_if_idle(first.session()), "its claim is still there");
    let third = client.join(TTL, "third").await.unwrap();
    assert!(Arc::ptr_eq(second.session(), third.session()));
}

#[tokio::test(start_paused = true)]
async fn a_session_without_claims_between_checks_is_idle() {
    let client = Client::new();
    let membership = client.join(TTL, "a").await.unwrap();
    let session = membership.session().clone();
    for _ in 0..3 {
        assert!(!client.sessions.close_if_idle(&session), "a claim is in it");
    }
    drop(membership);
    drop(client.join(TTL, "b").await.unwrap());
    assert!(!client.sessions.close_if_idle(&session), "a claim has come and gone");
    assert!(client.sessions.close_if_idle(&session));
    assert!(client.sessions.all().is_empty());
    let second = client.join(TTL, "c").await.unwrap().session().clone();
    assert_eq!(second.number, 2);
    assert!(!client.sessions.close_if_idle(&second), "the claim that has opened it counts, too");
    assert!(client.sessions.close_if_idle(&second));
}

/// The grace is for the next claim of the ttl, which does not come to such a session.
#[tokio::test(start_paused = true)]
async fn a_closing_session_is_idle_after_its_last_claim() {
    let client = Client::new();
    let membership = client.join(TTL, "a").await.unwrap();
    let session = membership.session().clone();
    client.sessions.stop_joining(&session);
    assert!(!client.sessions.close_if_idle(&session));
    drop(membership);
    assert!(client.sessions.close_if_idle(&session));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_ends_its_sessions_and_tasks() {
    let client = Client::new();
    let (long, short) = (client.join(TTL * 2, "a").await.unwrap(), client.join(TTL, "b").await.unwrap());
    let taken = client.sessions.take_all();
    let numbers: Vec<usize> = taken.iter().map(|(session, _)| session.number).collect();
    assert_eq!(numbers, [short.session().number, long.session().number], "by their ttl");
    assert!(taken.iter().all(|(_, task)| !task.is_finished()), "a task may end its session itself");
    taken.iter().for_each(|(_, task)| task.abort());
    tokio::task::yield_now().await;
    assert!(taken.iter().all(|(_, task)| task.is_finished()));
    assert!(client.sessions.all().is_empty() && client.sessions.take_all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_fork_ends_no_session_of_its_parent() {
    let client = Client::of(Process::another());
    assert!(client.sessions.is_forked());
    let membership = client.join(TTL, "a").await.unwrap();
    let session = Arc::downgrade(membership.session());
    drop(membership);
    let copy = client.sessions.all().remove(0);
    assert!((0..3).all(|_| !client.sessions.close_if_idle(&copy)));
    let owners = session.strong_count();
    assert!(client.sessions.take_all().is_empty());
    drop(client);
    assert_eq!(session.strong_count(), owners, "it is not dropped, which might close its connection");
}
