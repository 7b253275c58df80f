//! A server that the tests control, which is its own source.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, Instant};
use crate::driver::Wakes;
use crate::name::Name;
use crate::toolkit::feed::{Audience, Missed, Notice, Source, SourceError};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    Releases(Name),
    Revokes,
    /// Releases and revokes.
    All,
}

/// The outcome of one step of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Works,
    /// The subscription works, and claims may have missed something.
    Anew,
    Refused,
    Breaks,
    /// The server waits until it comes to something else.
    Hangs,
}

/// The server and its source in one. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Server(Arc<State>);

#[derive(Debug)]
struct State {
    clock: Clock,
    /// The requests, and their moments.
    log: Mutex<Vec<(Instant, String)>>,
    /// The steps that don't just work.
    steps: watch::Sender<BTreeMap<&'static str, Step>>,
    /// A topic that is not subscribed here, and why.
    unsubscribable: Mutex<Option<(Topic, SourceError)>>,
    /// The server's end of the newest connection.
    line: Mutex<Option<mpsc::UnboundedSender<Notice>>>,
}

impl Server {
    pub(super) fn new(clock: Clock) -> Server {
        Server(Arc::new(State {
            clock,
            log: Mutex::default(),
            steps: watch::Sender::default(),
            unsubscribable: Mutex::default(),
            line: Mutex::default(),
        }))
    }

    pub(super) fn set(&self, step: &'static str, to: Step) {
        self.0.steps.send_modify(|steps| _ = steps.insert(step, to));
    }

    /// Refuses this topic from now on.
    pub(super) fn forbid(&self, topic: Topic) {
        *self.0.unsubscribable.lock().unwrap() = Some((topic, SourceError::Refused("forbidden".to_owned())));
    }

    /// Says from now on that another server reports this topic.
    pub(super) fn send_elsewhere(&self, topic: Topic) {
        *self.0.unsubscribable.lock().unwrap() = Some((topic, SourceError::Elsewhere("moved".to_owned())));
    }

    pub(super) fn report(&self, notice: Notice) {
        self.0.line.lock().unwrap().as_ref().unwrap().send(notice).unwrap();
    }

    /// Cuts the connection. Returns when that was.
    pub(super) fn cut(&self) -> Instant {
        *self.0.line.lock().unwrap() = None;
        self.0.clock.now()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.0.line.lock().unwrap().as_ref().is_some_and(|line| !line.is_closed())
    }

    fn log(&self, what: String) {
        self.0.log.lock().unwrap().push((self.0.clock.now(), what));
    }

    /// Returns when this was asked.
    pub(super) fn times(&self, what: &str) -> Vec<Instant> {
        let log = self.0.log.lock().unwrap();
        log.iter().filter(|(_, asked)| asked == what).map(|(at, _)| *at).collect()
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.times(what).len()
    }

    async fn step(&self, name: &'static str, asked: String) -> Result<Missed, SourceError> {
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

    async fn open(&self) -> Result<Self::Connection, SourceError> {
        self.step("open", "open".to_owned()).await?;
        let (line, connection) = mpsc::unbounded_channel();
        *self.0.line.lock().unwrap() = Some(line);
        Ok(connection)
    }

    async fn subscribe(&self, _: &mut Self::Connection, topics: &[Topic]) -> Result<Missed, SourceError> {
        let missed = self.step("subscribe", format!("subscribe {}", show(topics))).await?;
        match self.0.unsubscribable.lock().unwrap().as_ref() {
            Some((topic, why)) if topics.contains(topic) => Err(why.clone()),
            _ => Ok(missed),
        }
    }

    async fn unsubscribe(&self, _: &mut Self::Connection, topics: &[Topic]) -> Result<(), SourceError> {
        self.step("unsubscribe", format!("unsubscribe {}", show(topics))).await.map(drop)
    }

    async fn next(&self, connection: &mut Self::Connection) -> Result<Notice, SourceError> {
        connection.recv().await.ok_or_else(|| SourceError::Broken("cut".to_owned()))
    }

    async fn check(&self, _: &mut Self::Connection) -> Result<Missed, SourceError> {
        self.step("check", "check".to_owned()).await
    }

    fn learned(&self, topic: &Topic, wakes: Wakes) {
        self.log(format!("{} {}", wakes.as_str(), show(std::slice::from_ref(topic))));
    }
}
