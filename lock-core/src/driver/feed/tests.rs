//! A feed on a server that the tests control, in virtual time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::task::{CHECK, IDLE};
use super::*;
use crate::clock::{Clock, Instant, Time, Timer};
use crate::driver::info::Wakes;
use crate::error::ErrorKind;
use crate::owner::Owner;
use crate::random::Random;

const PATIENCE: Duration = Duration::from_secs(5);
const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Topic {
    Releases(Name),
    Revokes,
    /// Releases and revokes.
    All,
}

/// What a step of the source comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Works,
    /// It works, and claims may have missed something.
    Anew,
    Refused,
    Breaks,
    /// It waits until it comes to something else.
    Hangs,
}

/// The server and its source in one. Cheap to clone.
#[derive(Clone, Debug)]
struct Server(Arc<State>);

#[derive(Debug)]
struct State {
    clock: Clock,
    /// What was asked, and when.
    log: Mutex<Vec<(Instant, String)>>,
    /// The steps that don't just work.
    steps: watch::Sender<BTreeMap<&'static str, Step>>,
    forbidden: Mutex<Option<Topic>>,
    /// The server's end of the newest connection.
    line: Mutex<Option<mpsc::UnboundedSender<Notice>>>,
}

impl Server {
    fn set(&self, step: &'static str, to: Step) {
        self.0.steps.send_modify(|steps| _ = steps.insert(step, to));
    }

    fn report(&self, notice: Notice) {
        self.0.line.lock().unwrap().as_ref().unwrap().send(notice).unwrap();
    }

    /// Cuts the connection. Returns when that was.
    fn cut(&self) -> Instant {
        *self.0.line.lock().unwrap() = None;
        self.0.clock.now()
    }

    fn is_connected(&self) -> bool {
        self.0.line.lock().unwrap().as_ref().is_some_and(|line| !line.is_closed())
    }

    fn log(&self, what: String) {
        self.0.log.lock().unwrap().push((self.0.clock.now(), what));
    }

    /// Returns when this was asked.
    fn times(&self, what: &str) -> Vec<Instant> {
        let log = self.0.log.lock().unwrap();
        log.iter().filter(|(_, asked)| asked == what).map(|(at, _)| *at).collect()
    }

    fn count(&self, what: &str) -> usize {
        self.times(what).len()
    }

    async fn step(&self, name: &'static str, asked: String) -> std::result::Result<Missed, SourceError> {
        self.log(asked);
        let mut steps = self.0.steps.subscribe();
        let hangs = |steps: &BTreeMap<&str, Step>| steps.get(name) == Some(&Step::Hangs);
        steps.wait_for(|steps| !hangs(steps)).await.map(drop).unwrap();
        let step = self.0.steps.borrow().get(name).copied();
        match step.unwrap_or(Step::Works) {
            Step::Works | Step::Hangs => Ok(Missed::Nothing),
            Step::Anew => Ok(Missed::Possibly),
            Step::Refused => Err(SourceError::Refused("refused".to_owned())),
            Step::Breaks => Err(SourceError::Broken("broken".to_owned())),
        }
    }
}

fn show(topics: &[Topic]) -> String {
    let shown: Vec<String> = topics
        .iter()
        .map(|topic| match topic {
            Topic::Releases(name) => name.to_string(),
            Topic::Revokes => "!".to_owned(),
            Topic::All => "*".to_owned(),
        })
        .collect();
    shown.join(" ")
}

#[async_trait]
impl Source for Server {
    type Topic = Topic;
    type Connection = mpsc::UnboundedReceiver<Notice>;

    fn audience(topic: &Topic) -> Audience<'_> {
        match topic {
            Topic::Releases(name) => Audience::Waiters(name),
            Topic::Revokes => Audience::Holders,
            Topic::All => Audience::All,
        }
    }

    async fn open(&self) -> std::result::Result<Self::Connection, SourceError> {
        self.step("open", "open".to_owned()).await?;
        let (line, connection) = mpsc::unbounded_channel();
        *self.0.line.lock().unwrap() = Some(line);
        Ok(connection)
    }

    async fn subscribe(
        &self,
        _: &mut Self::Connection,
        topics: &[Topic],
    ) -> std::result::Result<Missed, SourceError> {
        let missed = self.step("subscribe", format!("subscribe {}", show(topics))).await?;
        match self.0.forbidden.lock().unwrap().as_ref() {
            Some(forbidden) if topics.contains(forbidden) => {
                Err(SourceError::Refused("forbidden".to_owned()))
            }
            _ => Ok(missed),
        }
    }

    async fn unsubscribe(
        &self,
        _: &mut Self::Connection,
        topics: &[Topic],
    ) -> std::result::Result<(), SourceError> {
        self.step("unsubscribe", format!("unsubscribe {}", show(topics))).await.map(drop)
    }

    async fn next(&self, connection: &mut Self::Connection) -> std::result::Result<Notice, SourceError> {
        connection.recv().await.ok_or_else(|| SourceError::Broken("cut".to_owned()))
    }

    async fn check(&self, _: &mut Self::Connection) -> std::result::Result<Missed, SourceError> {
        self.step("check", "check".to_owned()).await
    }

    fn learned(&self, topic: &Topic, wakes: Wakes) {
        self.log(format!("{} {}", wakes.as_str(), show(std::slice::from_ref(topic))));
    }
}

/// The paused clock of the test's runtime.
#[derive(Debug)]
struct Virtual(tokio::time::Instant);

#[allow(clippy::disallowed_methods, reason = "the virtual clock is made of these")]
impl Time for Virtual {
    fn now(&self) -> Instant {
        Instant::from_origin(self.0.elapsed())
    }

    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}

/// A client with its feed, and its server.
struct Scene {
    server: Server,
    clock: Clock,
    feed: Arc<Feed<Server>>,
}

impl Scene {
    #[allow(clippy::disallowed_methods, reason = "the virtual clock is made of these")]
    fn new() -> Scene {
        let clock = Clock::new(Virtual(tokio::time::Instant::now()));
        let server = Server(Arc::new(State {
            clock: clock.clone(),
            log: Mutex::default(),
            steps: watch::Sender::default(),
            forbidden: Mutex::default(),
            line: Mutex::default(),
        }));
        let context = Context::new(clock.clone(), Random::system(), PATIENCE);
        Scene { feed: Arc::new(Feed::new(server.clone(), context)), server, clock }
    }

    fn call(&self) -> Call {
        Call::begin(&self.clock, PATIENCE)
    }

    /// Listens as a claim that waits for the lock.
    fn listen(&self, lock: &str) -> impl Future<Output = Result<Subscription>> + Send + use<> {
        let (feed, call, name) = (self.feed.clone(), self.call(), name(lock));
        async move { feed.listen(&name, Topic::Releases(name.clone()), &call).await }
    }

    /// Watches as the claim of an owner that holds a lock.
    fn watch(&self, owner: Owner) -> impl Future<Output = Result<Subscription>> + Send + use<> {
        let (feed, call) = (self.feed.clone(), self.call());
        async move { feed.watch(&owner.to_name(), Topic::Revokes, &call).await }
    }

    /// Returns whether the claim was woken since the last look.
    async fn is_woken(&self, listening: &Subscription) -> bool {
        self.clock.timeout(MS, listening.woken()).await.is_some()
    }

    /// Lets the feed's task do what it can do now.
    async fn settle(&self) {
        self.clock.sleep(MS).await;
    }
}

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn owner() -> Owner {
    Owner::mint(&Random::system())
}

/// Returns the pauses between one moment and the next.
fn pauses(moments: &[Instant]) -> Vec<Duration> {
    moments.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_listens_when_the_server_has_confirmed_it_and_not_before() {
    let scene = Scene::new();
    assert_eq!(scene.server.count("open"), 0, "no claim listens yet");
    scene.server.set("subscribe", Step::Hangs);
    let first = tokio::spawn(scene.listen("a"));
    scene.clock.sleep(PATIENCE / 2).await;
    assert_eq!(scene.server.count("subscribe a"), 1);
    assert!(!first.is_finished() && !scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    scene.server.set("subscribe", Step::Works);
    let first = first.await.unwrap().unwrap();
    assert!(scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    assert_eq!(scene.server.count("pushed a"), 1, "the source was told");

    let second = scene.listen("a").await.unwrap();
    drop(scene.listen("b").await.unwrap());
    assert_eq!(scene.server.count("subscribe a"), 1, "what is confirmed is not subscribed again");
    assert_eq!(scene.server.count("open"), 1, "one connection serves all claims");
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn a_notice_wakes_the_claims_that_it_is_about() {
    let scene = Scene::new();
    let owner = owner();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    let holder = scene.watch(owner).await.unwrap();
    assert!(!scene.is_woken(&a).await, "a first subscription follows no gap");
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&b).await && !scene.is_woken(&holder).await);
    scene.server.report(Notice::Revoked(owner.to_string()));
    assert!(scene.is_woken(&holder).await && !scene.is_woken(&a).await);
    scene.server.report(Notice::Other);
    scene.server.report(Notice::Released("c".to_owned()));
    for listening in [&a, &b, &holder] {
        assert!(!scene.is_woken(listening).await);
    }
}

#[tokio::test(start_paused = true)]
async fn every_claim_is_woken_when_the_connection_breaks_and_when_another_one_is_subscribed() {
    let scene = Scene::new();
    let (a, holder) = (scene.listen("a").await.unwrap(), scene.watch(owner()).await.unwrap());
    scene.server.set("open", Step::Breaks);
    scene.server.cut();
    assert!(scene.is_woken(&a).await && scene.is_woken(&holder).await, "nothing is reported from now on");
    assert!(!scene.feed.is_confirmed(&Topic::Revokes));
    scene.clock.sleep(PATIENCE).await;
    assert!(!scene.is_woken(&a).await, "a connection that can't be opened changes nothing");
    scene.server.set("open", Step::Works);
    scene.clock.sleep(PATIENCE).await;
    assert!(scene.is_woken(&a).await && scene.is_woken(&holder).await, "the gap is over");
    assert_eq!(scene.server.count("subscribe a !"), 1, "all topics are subscribed again, in one request");
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&holder).await);
}

#[tokio::test(start_paused = true)]
async fn an_order_in_a_gap_does_not_hide_the_gap() {
    let scene = Scene::new();
    let (a, holder) = (scene.listen("a").await.unwrap(), scene.watch(owner()).await.unwrap());
    scene.server.set("open", Step::Breaks);
    scene.server.cut();
    assert!(scene.is_woken(&holder).await && scene.is_woken(&a).await);
    let late = scene.watch(owner()).await.unwrap_err();
    assert!(late.is_transient() && !late.may_have_taken_effect(), "{late:?}");
    // The pauses are long by now, and the order comes in one of them.
    scene.clock.sleep(PATIENCE).await;
    scene.server.set("open", Step::Works);
    drop(scene.watch(owner()).await.unwrap());
    assert!(scene.is_woken(&holder).await && scene.is_woken(&a).await);
}

#[tokio::test(start_paused = true)]
async fn topics_that_are_refused_after_a_gap_do_not_hide_it() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    *scene.server.0.forbidden.lock().unwrap() = Some(Topic::Releases(name("a")));
    scene.server.cut();
    assert!(scene.is_woken(&a).await);
    scene.clock.sleep(PATIENCE).await;
    assert!(scene.is_woken(&a).await && !scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    assert_eq!(scene.server.count("polled a"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_pauses_double_up_to_two_seconds_and_begin_anew_when_a_topic_was_confirmed() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    for broken in ["open", "subscribe"] {
        scene.server.set(broken, Step::Breaks);
        let cut = scene.server.cut();
        scene.clock.sleep(Duration::from_secs(20)).await;
        let tries = scene.server.times("open").into_iter().filter(|at| *at > cut);
        let pauses = pauses(&[cut].into_iter().chain(tries).collect::<Vec<_>>());
        assert!(pauses.len() >= 9, "{pauses:?}");
        for (round, pause) in pauses.into_iter().enumerate() {
            let longest = Duration::from_millis(50 << round.min(10)).min(Duration::from_secs(2));
            // A timer counts whole milliseconds.
            assert!(pause >= longest / 2 && pause <= longest + MS * 2, "{broken}: {round}: {pause:?}");
        }
        scene.server.set(broken, Step::Works);
        scene.clock.sleep(Duration::from_secs(3)).await;
        assert!(scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    }
    drop(a);
}

#[tokio::test(start_paused = true)]
async fn a_topic_without_listeners_is_unsubscribed_after_one_to_two_sweeps() {
    let scene = Scene::new();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    drop(a);
    scene.clock.sleep(IDLE / 2).await;
    drop(scene.listen("a").await.unwrap());
    assert_eq!(
        scene.server.count("subscribe a"),
        1,
        "a name that is handed over often is not subscribed anew"
    );
    let left = scene.clock.now();
    scene.clock.sleep(IDLE * 3).await;
    let [unsubscribed] = scene.server.times("unsubscribe a")[..] else { panic!("it is unsubscribed once") };
    let after = unsubscribed.since(left);
    assert!(after >= IDLE && after <= IDLE * 2 + MS * 4, "{after:?}");
    assert!(!scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    assert!(scene.feed.is_confirmed(&Topic::Releases(name("b"))), "a claim listens to this one");

    let a = scene.listen("a").await.unwrap();
    assert_eq!(scene.server.count("subscribe a"), 2);
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&b).await);
    assert_eq!(scene.server.count("open"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_for_all_stays_while_any_claim_listens() {
    let scene = Scene::new();
    let waiter = scene.feed.listen(&name("a"), Topic::All, &scene.call()).await.unwrap();
    let holder = scene.feed.watch(&owner().to_name(), Topic::All, &scene.call()).await.unwrap();
    drop(waiter);
    scene.clock.sleep(IDLE * 3).await;
    assert!(scene.feed.is_confirmed(&Topic::All));
    drop(holder);
    scene.clock.sleep(IDLE * 3).await;
    assert!(!scene.feed.is_confirmed(&Topic::All));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_has_gone_is_connected_for_no_more() {
    let scene = Scene::new();
    scene.server.set("open", Step::Breaks);
    scene.listen("a").await.unwrap_err();
    scene.clock.sleep(PATIENCE * 10).await;
    assert_eq!(scene.server.count("open"), 1, "no claim wants a connection");

    scene.server.set("open", Step::Hangs);
    let gone = tokio::spawn(scene.listen("a"));
    scene.settle().await;
    gone.abort();
    scene.clock.sleep(PATIENCE * 10).await;
    assert_eq!(scene.server.count("open"), 2, "the claim left while it waited");
    scene.server.set("open", Step::Works);
    drop(scene.listen("a").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_costs_a_claim_its_patience_and_the_feed_nothing() {
    for step in ["open", "subscribe"] {
        let scene = Scene::new();
        scene.server.set(step, Step::Hangs);
        let began = scene.clock.now();
        let error = scene.listen("a").await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{step}: {error:?}");
        let took = scene.clock.now().since(began);
        assert!(took >= PATIENCE && took <= PATIENCE + MS * 2, "{step}: {took:?}");
        scene.server.set(step, Step::Works);
        drop(scene.listen("a").await.unwrap());
    }
    for (step, after) in [("check", CHECK), ("unsubscribe", IDLE * 2)] {
        let scene = Scene::new();
        let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
        scene.server.set(step, Step::Hangs);
        drop(a);
        scene.clock.sleep(after + PATIENCE + IDLE).await;
        assert!(scene.is_woken(&b).await, "{step}: it is given up");
        scene.server.set(step, Step::Works);
        scene.clock.sleep(PATIENCE).await;
        assert!(scene.feed.is_confirmed(&Topic::Releases(name("b"))), "{step}: another one took its place");
        assert!(scene.server.count("open") > 1, "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_leaves_the_rest() {
    let scene = Scene::new();
    *scene.server.0.forbidden.lock().unwrap() = Some(Topic::Releases(name("b")));
    let (a, b, c) = tokio::join!(scene.listen("a"), scene.listen("b"), scene.listen("c"));
    let refused = b.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("forbidden"), "{refused}");
    let (a, c) = (a.unwrap(), c.unwrap());
    assert_eq!((scene.server.count("polled b"), scene.server.count("pushed b")), (1, 0));
    assert_eq!(scene.server.count("open"), 1);
    assert!(!scene.is_woken(&a).await && !scene.is_woken(&c).await);

    let scene = Scene::new();
    scene.server.set("open", Step::Refused);
    assert_eq!(scene.listen("a").await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_checked_while_a_topic_is_subscribed() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    scene.clock.sleep(CHECK * 3 + MS * 10).await;
    assert_eq!(scene.server.count("check"), 3);
    assert!(!scene.is_woken(&a).await);
    scene.server.set("check", Step::Anew);
    scene.clock.sleep(CHECK).await;
    assert!(scene.is_woken(&a).await, "it may have missed something");
    scene.server.set("check", Step::Breaks);
    scene.clock.sleep(CHECK).await;
    assert!(scene.is_woken(&a).await, "the check found it broken");
    scene.server.set("check", Step::Works);
    scene.clock.sleep(IDLE).await;
    assert!(scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    drop(a);
    scene.clock.sleep(IDLE * 3).await;
    let checks = scene.server.count("check");
    scene.clock.sleep(CHECK * 10).await;
    assert_eq!(scene.server.count("check"), checks, "no claim relies on the connection");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_means_something_else_is_subscribed_again() {
    let scene = Scene::new();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    let topic = Topic::Releases(name("a"));
    scene.feed.confirm(topic.clone(), &scene.call()).await.unwrap();
    assert_eq!(scene.server.count("subscribe a"), 1);
    scene.feed.subscribe(topic.clone(), &scene.call()).await.unwrap();
    assert_eq!(scene.server.count("subscribe a"), 2);
    assert!(!scene.is_woken(&a).await);
    scene.server.set("subscribe", Step::Anew);
    scene.feed.subscribe(topic.clone(), &scene.call()).await.unwrap();
    assert!(scene.is_woken(&a).await && scene.is_woken(&b).await);
    scene.server.set("subscribe", Step::Refused);
    scene.feed.subscribe(topic.clone(), &scene.call()).await.unwrap_err();
    assert!(scene.is_woken(&a).await && !scene.feed.is_confirmed(&topic), "it may be reported no more");
}

#[tokio::test(start_paused = true)]
async fn the_connection_ends_with_the_feed() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    assert!(scene.server.is_connected());
    let Scene { server, clock, feed } = scene;
    drop(feed);
    clock.sleep(MS).await;
    assert!(!server.is_connected(), "though a claim listens");
    drop(a);
}
