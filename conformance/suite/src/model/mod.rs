//! Compares a backend with its model: the same random steps must give the same answers on both.
//!
//! The model is lock-memory, a pure function of its state, the time and the request. The difficulty is time: a step
//! near the end of a lease may come before that end on one server and after it on the other. So no step begins near an
//! end. If a step meets an end all the same, because the machine was busy, its play is void and is begun again.

mod judge;
mod lease_ends;
mod plan;
mod side;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lock_core::driver::{Fair, Info, Lease, Revoked, Wakes};
use lock_core::{Options, Result};
use lock_memory::Memory;

use self::lease_ends::LeaseEnds;
use self::plan::{NAMES, Step};
use self::side::{Said, Side};
use crate::setting::Setting;
use crate::timing::void;

/// The number of plays of a plan that may be void.
const PLAYS: usize = 5;
/// The longest time for which a plan that showed a disagreement may be shortened.
const SHRINKING: Duration = Duration::from_secs(8);

/// The longest time that the news of a loss may take where it comes with a session's heartbeats.
const LOSS: Duration = Duration::from_secs(1);

/// The events of plays that came to their end. A comparison shows nothing about what never happened.
pub(crate) type Happened = BTreeSet<&'static str>;

/// The end of a play.
enum Play {
    Agreed(Happened),
    /// At this step.
    Disagreed(usize, String),
    Void,
}

/// Plays the plan of this seed on both servers. `Err` says on what they disagree, and at which step.
pub(crate) async fn compare(s: &Setting, seed: u64, steps: usize) -> Result<Happened, String> {
    let steps = plan::plan(seed, steps, [s.ttl(), (s.ttl() * 100).min(s.info.max_ttl)]);
    for _ in 0..PLAYS {
        match play(s, &steps).await {
            Play::Agreed(happened) => return Ok(happened),
            Play::Disagreed(at, what) => {
                let (steps, what) = shrink(s, steps[..=at].to_vec(), what).await;
                let steps: String = steps.iter().map(|step| format!("  {step:?}\n")).collect();
                return Err(format!("seed {seed}: {what}, at the last of these steps:\n{steps}"));
            }
            Play::Void => {}
        }
    }
    void(&format!("{PLAYS} plays of seed {seed} are void: leases end in the middle of their steps"))
}

/// Leaves out whatever can be left out: steps about the other name, then halves, quarters, single steps.
async fn shrink(s: &Setting, mut steps: Vec<Step>, mut what: String) -> (Vec<Step>, String) {
    let end = Instant::now() + SHRINKING;
    let name = steps.last().map(|step| step.name());
    let mut fewer: Vec<_> = steps.iter().copied().filter(|step| Some(step.name()) == name).collect();
    let mut chunk = fewer.len();
    let mut at = 0;
    loop {
        if let Play::Disagreed(last, still) = play(s, &fewer).await {
            fewer.truncate(last + 1);
            (steps, what) = (fewer, still);
        } else {
            at += chunk;
        }
        if at >= steps.len() {
            (chunk, at) = (chunk / 2, 0);
        }
        if chunk == 0 || Instant::now() > end {
            return (steps, what);
        }
        fewer = steps.clone();
        fewer.drain(at..(at + chunk).min(steps.len()));
    }
}

async fn play(s: &Setting, steps: &[Step]) -> Play {
    let names: Vec<_> = (0..NAMES).map(|_| s.name()).collect();
    let memory = model_of(&s.info);
    let (mut clients, mut models) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        clients.push(s.client().await);
        models.push(memory.client_with(Options::default()).await.expect("a server in this process"));
    }
    let mut stage = Stage {
        info: &s.info,
        backend: Side::new(clients, names.clone()),
        model: Side::new(models, names),
        lease_ends: LeaseEnds::new(s.ttl()),
        idle: Instant::now(),
        happened: Happened::new(),
    };
    let mut end = None;
    for (at, step) in steps.iter().enumerate() {
        end = match stage.step(*step).await {
            Ok(Went::On) => continue,
            Ok(Went::Over) => None,
            Ok(Went::Void) => Some(Play::Void),
            Err(what) => Some(Play::Disagreed(at, what)),
        };
        break;
    }
    stage.backend.clear().await;
    end.unwrap_or(Play::Agreed(stage.happened))
}

/// Returns whether there is a model of the same family. There is none of a server that serves waiters in their order, and
/// whose leases belong to each lock.
pub(crate) fn has(info: &Info) -> bool {
    (info.lease, info.fair) != (Lease::Lock, Fair::PerProcess)
}

/// Returns a model of the same family.
fn model_of(info: &Info) -> Memory {
    match (info.lease, info.fair) {
        (Lease::Lock, Fair::No) => Memory::new(),
        _ => Memory::queue(),
    }
}

/// Both servers, and what is known of the time on them.
struct Stage<'a> {
    info: &'a Info,
    backend: Side,
    model: Side,
    lease_ends: LeaseEnds,
    /// Since when no request was sent.
    idle: Instant,
    happened: Happened,
}

/// The meaning of a step for its play.
enum Went {
    On,
    /// A lock that was revoked may be free on one of the two servers and not on the other, as long as its holder's
    /// client does not ask. Nothing that follows can be compared. What was compared before remains valid.
    Over,
    /// The step met the end of a lease.
    Void,
}

/// The answers of both servers to one step; nothing if the step asks them nothing.
struct Answers {
    said: Option<Said>,
    model: Option<Said>,
    /// When the backend was asked, and when the model.
    began: Instant,
    between: Instant,
    ended: Instant,
    /// The longest time without a request.
    silence: Duration,
}

impl Stage<'_> {
    /// Takes the step on both servers. `Err` says on what they disagree.
    async fn step(&mut self, step: Step) -> Result<Went, String> {
        let name = step.name();
        if let Step::Outlive(name) = step {
            if self.lease_ends.outlive(name).await {
                self.happened.insert("outlived");
            }
            return Ok(Went::On);
        }
        self.lease_ends.wait(name).await;
        let leases = self.info.lease == Lease::Lock;
        let Answers { said, model, began, between, ended, silence } = self.ask_both(step).await?;
        if self.lease_ends.met(name, began, ended) || !leases && self.lease_ends.is_long(silence) {
            return Ok(Went::Void);
        }
        if self.lease_ends.may_be_freed(name, ended) {
            return Ok(Went::Over);
        }
        let (Some(said), Some(model)) = (said, model) else { return Ok(Went::On) };
        let apart = self.lease_ends.apart(name, ended - began);
        if let Some(objection) = judge::objection(self.info, &model, &said, apart) {
            return Err(objection);
        }
        match leases {
            true => self.lease_ends.heard(name, [(&said, began, between), (&model, between, ended)]),
            false => self.lease_ends.heard_of_a_session(name, [&said, &model], began),
        }
        self.happened.insert(what_happened(&said));
        if matches!(said, Said::Released { .. } | Said::Revoked(Revoked::Free)) {
            self.news(name).await?;
        }
        Ok(Went::On)
    }

    /// Asks the backend, then the model. `Err` is an error of the backend.
    async fn ask_both(&mut self, step: Step) -> Result<Answers, String> {
        let began = Instant::now();
        let mut said = self.ask_backend(step).await?;
        let between = Instant::now();
        let model = self.model.take(step).await.expect("a server in this process has no trouble");
        let modelled = Instant::now();
        // The last proof of a session may be older than the loss; the next one is not.
        while self.info.lease != Lease::Lock
            && matches!((&said, &model), (Some(Said::Held { .. }), Some(Said::Lost { .. })))
            && between.elapsed() < LOSS
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
            said = self.ask_backend(step).await?;
        }
        let ended = Instant::now();
        let silence = (began - self.idle).max(between - began).max(modelled - between);
        self.idle = ended;
        Ok(Answers { said, model, began, between, ended, silence })
    }

    async fn ask_backend(&mut self, step: Step) -> Result<Option<Said>, String> {
        self.backend.take(step).await.map_err(|e| format!("an error: {e:?}"))
    }

    /// Checks that every listener hears of a release, by whichever client, where the server pushes.
    async fn news(&mut self, name: usize) -> Result<(), String> {
        if self.info.wakes != Wakes::Pushed || self.info.fair != Fair::No {
            return Ok(());
        }
        for slot in self.backend.listeners(name) {
            if !self.backend.hears(slot).await {
                return Err(format!("{slot:?} was not woken"));
            }
            self.happened.insert("woken");
        }
        Ok(())
    }
}

fn what_happened(said: &Said) -> &'static str {
    match said {
        Said::Granted { token: side::Rank::Same, .. } => "granted again",
        Said::Granted { .. } => "granted",
        Said::Busy(_) => "busy",
        Said::Listens => "listens",
        Said::CannotPush => "can't push",
        Said::Held { .. } => "held",
        Said::Lost { cause, .. } => cause.as_str(),
        Said::Released { .. } => "released",
        Said::NotHeld => "not held",
        Said::Shown { holder: Some(_), .. } => "shown",
        Said::Shown { holder: None, .. } => "no holder shown",
        Said::Revoked(Revoked::FreeIn(_)) => "revoked at the deadline",
        Said::Revoked(Revoked::Free) => "revoked now",
        Said::Revoked(Revoked::NotHeld) => "nothing revoked",
    }
}
