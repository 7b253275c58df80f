//! A driver that answers as a test's script says, on a virtual clock, and records what it was asked and when.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Driver, Entry, Fair, Fencing, Finding, Grant, Info, Inspection, Lease, Predecessor,
    Release, Renewal, Request, Revocation, Revoked, UnixTime, Wakes, Watched,
};
use lock_core::driver::{Takeover, Takeovers};
use lock_core::toolkit::{RandomSource, Time, Timer};
use lock_core::{
    Client, Clock, Effect, Error, FencingToken, Instant, Name, Options, OwnerBytes, Random, Result,
};
use tokio::sync::Notify;

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// One step of the server: the time that a call takes, and its answer.
pub(crate) type Step<T> = (Duration, Result<T>);

pub(crate) fn granted(valid_for: Duration) -> Step<Attempt> {
    let token = FencingToken::new(7).expect("seven");
    (ms(1), Ok(Attempt::Granted(Grant::new(token, valid_for))))
}

/// A grant with what is left of a lease that was proven `age` before.
pub(crate) fn granted_of_old(valid_for: Duration, age: Duration) -> Step<Attempt> {
    let token = FencingToken::new(7).expect("seven");
    (ms(1), Ok(Attempt::Granted(Grant::new(token, valid_for).with_age(age))))
}

pub(crate) fn busy() -> Step<Attempt> {
    (ms(1), Ok(Attempt::Busy(Busy::default())))
}

/// An answer that shows the holder: `label`, which has held for `since`.
pub(crate) fn busy_with(label: &str, since: Duration, expires_in: Duration) -> Step<Attempt> {
    let holder = entry(label, since, expires_in);
    let busy = Busy::default().with_free_in(expires_in).with_holder(holder);
    (ms(1), Ok(Attempt::Busy(busy)))
}

pub(crate) fn entry(label: &str, since: Duration, expires_in: Duration) -> Entry {
    let mut entry = Entry::new(OwnerBytes::new(*b"theirs"));
    entry.label = Some(lock_core::Label::new(label));
    entry.token = FencingToken::new(6);
    entry.since = Some(since);
    entry.expires_in = Some(expires_in);
    entry
}

pub(crate) fn held(valid_for: Duration) -> Step<Renewal> {
    (ms(1), Ok(Renewal::Held { valid_for, age: Duration::ZERO }))
}

pub(crate) fn held_of_old(valid_for: Duration, age: Duration) -> Step<Renewal> {
    (ms(1), Ok(Renewal::Held { valid_for, age }))
}

pub(crate) fn released() -> Step<Release> {
    (ms(1), Ok(Release::Released { others: Some(false) }))
}

/// A grant in the place of the holder.
pub(crate) fn succeeded(valid_for: Duration, others: Option<bool>) -> Step<Takeover> {
    let grant = Grant::new(FencingToken::new(8).expect("eight"), valid_for);
    (ms(1), Ok(Takeover::Granted { grant, others }))
}

/// No answer within `patience`.
pub(crate) fn unknown<T>(patience: Duration) -> Step<T> {
    (patience, Err(Error::unavailable(Effect::Unknown, "no answer")))
}

/// The server's answer to an inspection.
#[derive(Debug, Default)]
pub(crate) enum Shown {
    Holder(Entry),
    #[default]
    NoHolder,
    NoAnswer,
}

/// The script of one test. The last step of each queue is repeated.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) attempts: Mutex<VecDeque<Step<Attempt>>>,
    pub(crate) renewals: Mutex<VecDeque<Step<Renewal>>>,
    pub(crate) releases: Mutex<VecDeque<Step<Release>>>,
    /// The answers to `take_over`; if there are none when the client is opened, the server knows no takeovers.
    pub(crate) takeovers: Mutex<VecDeque<Step<Takeover>>>,
    /// The answers to `watch`; if there are none, the server can't announce revokes.
    pub(crate) watches: Mutex<VecDeque<Step<Watched>>>,
    pub(crate) change: Notify,
    /// The answers to `listen`; if there are none, the server agrees at once.
    pub(crate) listens: Mutex<VecDeque<Step<()>>>,
    /// The answers to `revoke`; if there are none, the holder is not known.
    pub(crate) revokes: Mutex<VecDeque<Step<Revoked>>>,
    /// The answers to `init`; if there are none, there is nothing to do.
    pub(crate) inits: Mutex<VecDeque<Step<String>>>,
    /// The lead of the server's time over the client's clock, in microseconds; if there are no steps, the server tells
    /// no time.
    pub(crate) times: Mutex<VecDeque<Step<i64>>>,
    /// The answer to an inspection.
    pub(crate) shown: Mutex<Shown>,
    /// A lease belongs to one lock, unless the test sets this before it opens its client.
    pub(crate) lease: OnceLock<Lease>,
    /// A waiter has to look to learn of a release, unless the test sets this before it opens its client.
    pub(crate) wakes: OnceLock<Wakes>,
    /// The server keeps no queue, unless the test sets this before it opens its client.
    pub(crate) fair: OnceLock<Fair>,
    /// The server's answers come by a task of the client's runtime, as over a network.
    pub(crate) answers_by_a_task: OnceLock<()>,
    /// By how much the client's clock is ahead of its timers, in milliseconds.
    jumped: Arc<AtomicU64>,
    /// The next call of this kind panics.
    panics: Mutex<Option<&'static str>>,
    log: Mutex<Vec<(Duration, String)>>,
}

impl Script {
    pub(crate) fn new(
        attempts: impl IntoIterator<Item = Step<Attempt>>,
        renewals: impl IntoIterator<Item = Step<Renewal>>,
        releases: impl IntoIterator<Item = Step<Release>>,
    ) -> Arc<Script> {
        Arc::new(Script {
            attempts: Mutex::new(attempts.into_iter().collect()),
            renewals: Mutex::new(renewals.into_iter().collect()),
            releases: Mutex::new(releases.into_iter().collect()),
            ..Script::default()
        })
    }

    /// Returns when each call of this kind began, in milliseconds since the test's beginning.
    pub(crate) fn times_of(&self, call: &str) -> Vec<u64> {
        let log = self.log.lock().expect("no panic under it");
        log.iter().filter(|(_, what)| what.starts_with(call)).map(|(at, _)| at.as_millis() as u64).collect()
    }

    /// Simulates a suspend: the clock has gone on, the timers haven't.
    pub(crate) fn jump(&self, by: Duration) {
        self.jumped.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }

    /// Makes the next call of this kind panic.
    pub(crate) fn panics_in(&self, call: &'static str) {
        *self.panics.lock().expect("no panic under it") = Some(call);
    }

    pub(crate) fn log(&self) -> Vec<(Duration, String)> {
        self.log.lock().expect("no panic under it").clone()
    }

    async fn step<T: Clone>(
        &self,
        clock: &Clock,
        what: String,
        queue: &Mutex<VecDeque<Step<T>>>,
    ) -> Result<T> {
        let panics = self.panics.lock().expect("no panic under it").take_if(|call| what.starts_with(*call));
        self.log.lock().expect("no panic under it").push((clock.now().since_origin(), what));
        assert!(panics.is_none(), "the driver's bug");
        let (takes, answer) = {
            let mut queue = queue.lock().expect("no panic under it");
            let (takes, answer) = queue.pop_front().expect("the script has a step");
            let copy = match &answer {
                Ok(value) => Ok(value.clone()),
                Err(_) => Err(Error::unavailable(Effect::Unknown, "no answer")),
            };
            if queue.is_empty() {
                queue.push_back((takes, copy));
            }
            (takes, answer)
        };
        if self.answers_by_a_task.get().is_some() && tokio::spawn(async {}).await.is_err() {
            return Err(Error::unavailable(Effect::NotApplied, "no connection"));
        }
        clock.sleep(takes).await;
        answer
    }
}

#[derive(Debug)]
pub(crate) struct Scripted {
    script: Arc<Script>,
    info: Arc<Info>,
    clock: Clock,
}

/// Opens a client of the script on a virtual clock that shows zero.
pub(crate) async fn client(script: &Arc<Script>) -> Client {
    client_with(script, Options::default()).await
}

pub(crate) async fn client_with(script: &Arc<Script>, options: Options) -> Client {
    let clock = Clock::new(Virtual { start: now(), jumped: script.jumped.clone() });
    let connect = |_| std::future::ready(Ok(driver(script, clock.clone())));
    let options = options.clock(clock.clone()).random(Random::new(Seeded(AtomicU64::new(1))));
    options.open("scripted", "", connect).await.expect("a runtime")
}

pub(crate) fn driver(script: &Arc<Script>, clock: Clock) -> Scripted {
    let lease = *script.lease.get_or_init(|| Lease::Lock);
    let mut info = Info::new("scripted", "", Fencing::Always, lease, ms(10)..=Duration::from_secs(3600));
    info.wakes = *script.wakes.get_or_init(|| Wakes::Polled);
    info.fair = *script.fair.get_or_init(|| Fair::No);
    if !script.takeovers.lock().expect("no panic under it").is_empty() {
        info.takeovers = Takeovers::InOneRequest;
    }
    Scripted { script: script.clone(), info: Arc::new(info), clock }
}

#[async_trait]
impl Driver for Scripted {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(ScriptedClaim { script: self.script.clone(), clock: request.clock })
    }

    async fn inspect(&self, _: &Name, _: Duration) -> Result<Inspection> {
        let holder = match &*self.script.shown.lock().expect("no panic under it") {
            Shown::Holder(holder) => Some(holder.clone()),
            Shown::NoHolder => None,
            Shown::NoAnswer => return Err(Error::unavailable(Effect::NotApplied, "no answer")),
        };
        Ok(Inspection::new(holder, None))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        if self.script.revokes.lock().expect("no panic under it").is_empty() {
            return Ok(Revoked::NotHeld);
        }
        let Revocation { holder, label, when, patience, .. } = revocation;
        let what = format!("revoke {name} from {holder} {when:?} as {label} within {patience:?}");
        self.script.step(&self.clock, what, &self.script.revokes).await
    }

    async fn check(&self, _: Duration) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn init(&self, patience: Duration) -> Result<String> {
        if self.script.inits.lock().expect("no panic under it").is_empty() {
            return Ok(String::new());
        }
        self.script.step(&self.clock, format!("init within {patience:?}"), &self.script.inits).await
    }
}

#[derive(Debug)]
struct ScriptedClaim {
    script: Arc<Script>,
    clock: Clock,
}

#[async_trait]
impl Claim for ScriptedClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        self.script.step(&self.clock, "attempt".into(), &self.script.attempts).await
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        let what = format!("take_over {}", predecessor.label);
        self.script.step(&self.clock, what, &self.script.takeovers).await
    }

    async fn listen(&mut self) -> Result<()> {
        if self.script.listens.lock().expect("no panic under it").is_empty() {
            return Ok(());
        }
        self.script.step(&self.clock, "listen".into(), &self.script.listens).await
    }

    async fn changed(&mut self) {
        self.script.change.notified().await;
    }

    async fn watch(&mut self) -> Result<Watched> {
        if self.script.watches.lock().expect("no panic under it").is_empty() {
            return Err(Error::unsupported("it can't announce revokes"));
        }
        self.script.step(&self.clock, "watch".into(), &self.script.watches).await
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.script.step(&self.clock, format!("renew {ttl:?}"), &self.script.renewals).await
    }

    async fn release(&mut self) -> Result<Release> {
        self.script.step(&self.clock, "release".into(), &self.script.releases).await
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        if self.script.times.lock().expect("no panic under it").is_empty() {
            return Err(Error::unsupported("it tells no time"));
        }
        // Read as early as it may be.
        let now = i64::try_from(self.clock.now().since_origin().as_micros()).expect("a test is short");
        let ahead = self.script.step(&self.clock, "time".into(), &self.script.times).await?;
        Ok(UnixTime::from_micros(now + ahead))
    }
}

/// The paused clock of the test's runtime, counted from the test's beginning.
#[derive(Debug)]
struct Virtual {
    start: tokio::time::Instant,
    jumped: Arc<AtomicU64>,
}

#[allow(clippy::disallowed_methods, reason = "the virtual clock is made of these")]
impl Time for Virtual {
    fn now(&self) -> Instant {
        Instant::from_origin(self.start.elapsed() + ms(self.jumped.load(Ordering::Relaxed)))
    }

    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(tokio::time::sleep(pause))
    }
}

#[allow(clippy::disallowed_methods, reason = "the virtual clock is made of this")]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Passes virtual time.
#[allow(clippy::disallowed_methods, reason = "the virtual clock is made of this")]
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The same bytes in every run (splitmix64).
struct Seeded(AtomicU64);

impl RandomSource for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let x = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            *byte = (x ^ (x >> 31)) as u8;
        }
    }
}
