//! A server in memory that only compares and sets, over a network with faults, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use super::*;
use crate::driver::{Fencing, Lease};
use crate::error::Effect;
use crate::toolkit::{Connect, Hub, Subscription};

/// The time that a request takes to the server, and an answer back.
pub(super) const TRIP: Duration = ms(5);
/// The server's time when our clock begins, in microseconds.
const START: i64 = 1_700_000_000_000_000;
/// The reading of its clock at the beginning of 1970.
pub(super) const EPOCH: i64 = 1_000_000;

/// A fault of a replacement. One without a fault is done and answered.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    /// The write is done, and the connection breaks.
    AnswerLost,
    /// The write is done, and no answer comes.
    Silence,
    /// The connection breaks. The request arrives so much later.
    Late(Duration),
}

/// The contents of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// Nothing of the time: as NATS.
    Nothing,
    /// The answer to a write tells its stamp.
    Stamps,
}

/// The kind of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    /// A number that rises.
    Number(u64),
    /// As an ETag.
    Opaque(u64),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) values: BTreeMap<String, (Vec<u8>, u64, i64)>,
    /// Those of them that are the removal of their key.
    removed: BTreeSet<String>,
    pub(super) writes: u64,
    /// The requests since the last look at them.
    asked: Vec<&'static str>,
    pub(super) faults: VecDeque<Option<Fault>>,
    pub(super) told: Vec<Notice>,
    /// The number of coming messages to other clients that get lost.
    pub(super) untold: u32,
    pub(super) connections: u32,
    /// By how much the server's clock was set.
    pub(super) set_by: i64,
}

/// A clone is the same server.
#[derive(Clone)]
pub(super) struct Shelf {
    pub(super) clock: Clock,
    state: Arc<Mutex<State>>,
    tells: Tells,
    revision: fn(u64) -> Revision,
    /// The rate of the server's clock: its count in a second of ours, in millionths.
    rate: i64,
    pub(super) hub: Hub,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shelf")
    }
}

impl Shelf {
    /// As NATS: its revisions are numbers, and its answers to writes tell no stamp.
    pub(super) fn numbered() -> Shelf {
        let (clock, state, hub) = (Clock::tokio(), Arc::default(), Hub::default());
        Shelf { clock, state, tells: Tells::Nothing, revision: Revision::Number, rate: 1_000_000, hub }
    }

    /// As an object store: its revisions say nothing.
    pub(super) fn opaque(tells: Tells) -> Shelf {
        Shelf { tells, revision: Revision::Opaque, ..Shelf::numbered() }
    }

    pub(super) fn with_rate(self, rate: i64) -> Shelf {
        Shelf { rate, ..self }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic under it")
    }

    /// Returns what was asked since the last call.
    pub(super) fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state().asked)
    }

    /// Lets these things happen to the next replacements.
    pub(super) fn faults<const N: usize>(&self, faults: [Option<Fault>; N]) {
        self.state().faults.extend(faults);
    }

    /// Returns what the server's clock shows.
    pub(super) fn now(&self) -> i64 {
        let passed = i64::try_from(self.clock.now().since_origin().as_micros()).expect("not that long");
        START + passed * self.rate / 1_000_000 + self.state().set_by
    }

    /// Returns the row of the lock `a`, its stamp, and its revision.
    pub(super) fn row(&self) -> (Row, i64, u64) {
        let (value, revision, stamp) = self.state().values.get("p:a").cloned().expect("it was written");
        (Row::parse(&value).expect("it is ours"), stamp, revision)
    }

    /// Removes the key of the lock `a`, and keeps the revision of that.
    pub(super) fn remove(&self) {
        let now = self.now();
        let mut state = self.state();
        state.writes += 1;
        let revision = state.writes;
        state.values.insert("p:a".to_owned(), (Vec::new(), revision, now));
        state.removed.insert("p:a".to_owned());
    }

    fn stored(&self, key: &str) -> Option<Stored<Revision>> {
        let state = self.state();
        let (value, revision, stamp) = state.values.get(key).cloned()?;
        let revision = (self.revision)(revision);
        Some(match state.removed.contains(key) {
            true => Stored::removed(revision, stamp),
            false => Stored::new(value, revision, stamp),
        })
    }

    fn write(&self, key: &str, expected: Option<Revision>, value: &[u8]) -> Replaced<Revision> {
        let now = self.now();
        let mut state = self.state();
        let present = state.values.get(key).map(|(_, revision, _)| (self.revision)(*revision));
        if present != expected {
            return Replaced::Refused;
        }
        state.writes += 1;
        let revision = state.writes;
        state.values.insert(key.to_owned(), (value.to_vec(), revision, now));
        state.removed.remove(key);
        let stamp = (self.tells == Tells::Stamps).then_some(now);
        Replaced::Applied { revision: (self.revision)(revision), stamp }
    }

    async fn travels(&self, what: &'static str) {
        self.state().asked.push(what);
        self.clock.sleep(TRIP).await;
    }
}

fn broken() -> Error {
    Error::unavailable(Effect::Unknown, "the connection broke")
}

#[async_trait]
impl Connect for Shelf {
    type Connection = u32;

    async fn connect(&self, _: &Call) -> Result<u32> {
        self.state().connections += 1;
        Ok(self.state().connections)
    }

    fn is_usable(&self, _: &u32) -> bool {
        true
    }
}

#[async_trait]
impl Registers for Shelf {
    type Revision = Revision;

    const EPOCH: Option<i64> = Some(EPOCH);

    fn info(&self) -> Arc<Info> {
        let and = "nothing else".to_owned();
        let ttl = ms(10)..=Duration::from_secs(3600);
        let fencing = Fencing::UntilAMajorityLosesItsData { and };
        Arc::new(Info::new("shelf", "here", fencing, Lease::Lock, ttl))
    }

    fn key(&self, name: &Name) -> String {
        format!("p:{}", name.as_str())
    }

    fn number(revision: &Revision) -> Option<u64> {
        match revision {
            Revision::Number(number) => Some(*number),
            Revision::Opaque(_) => None,
        }
    }

    async fn read(&self, _: &u32, key: &str) -> Result<Read<Revision>> {
        self.travels("read").await;
        let last = self.stored(key);
        self.clock.sleep(TRIP).await;
        Ok(Read::new(last))
    }

    async fn replace(
        &self,
        _: &u32,
        key: &str,
        expected: Option<&Revision>,
        value: &[u8],
    ) -> Result<Replaced<Revision>> {
        self.travels("replace").await;
        let fault = self.state().faults.pop_front().flatten();
        if let Some(Fault::Late(by)) = fault {
            let (shelf, key, expected, value) =
                (self.clone(), key.to_owned(), expected.copied(), value.to_vec());
            tokio::spawn(async move {
                shelf.clock.sleep(by).await;
                shelf.write(&key, expected, &value)
            });
            return Err(broken());
        }
        let replaced = self.write(key, expected.copied(), value);
        match fault {
            Some(Fault::AnswerLost) => return Err(broken()),
            Some(Fault::Silence) => std::future::pending().await,
            _ => self.clock.sleep(TRIP).await,
        }
        Ok(replaced)
    }

    async fn time(&self, _: &u32) -> Result<i64> {
        self.travels("time").await;
        let now = self.now();
        self.clock.sleep(TRIP).await;
        Ok(now)
    }

    async fn findings(&self, _: &u32) -> Result<Vec<Finding>> {
        Ok(vec![Finding::new("rights", Level::Good, "this client may do anything")])
    }

    async fn init(&self, _: &u32) -> Result<String> {
        Ok("made a shelf".to_owned())
    }

    async fn listen(&self, name: &Name, _: &Call) -> Result<Subscription> {
        Ok(self.hub.listen(name))
    }

    async fn tell(&self, _: &u32, notice: &Notice) -> Result<()> {
        let mut state = self.state();
        if state.untold > 0 {
            state.untold -= 1;
            return Err(broken());
        }
        state.told.push(notice.clone());
        if let Notice::Released(name) = notice {
            self.hub.wake(name);
        }
        Ok(())
    }
}
