//! What callers do: ask, hold, write, give back, and go away in the middle of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Cause, Client, Error, ErrorKind, Fence, Guard, Instant, Lock};
use tokio::sync::Notify;

use super::dice::Dice;
use super::faults::{Fault, Kind};
use super::log::{CallId, Log, What, Why};
use super::timeline::{Machine, Micros, Timeline};
use super::{NAME, TTL};

/// What all callers share.
pub(super) struct Site {
    pub(super) timeline: Timeline,
    pub(super) log: Log,
    pub(super) fence: Arc<Fence>,
    pub(super) calls: Cell<CallId>,
    /// Each machine's holders look at their guards when somebody is granted the lock.
    pub(super) looks: Vec<Notify>,
}

/// Somebody who wants the lock again and again.
pub(super) struct Caller {
    pub(super) site: Rc<Site>,
    pub(super) client: Client,
    pub(super) machine: Machine,
    pub(super) dice: RefCell<Dice>,
}

/// One call, from its question to its end.
struct Section<'a> {
    caller: &'a Caller,
    call: CallId,
    stage: Cell<Stage>,
    /// Up to when the guard was certain when it last was.
    deadline: Cell<Option<Instant>>,
    plan: Plan,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Asking,
    Holding,
    /// Told, or let go: what the guard says means nothing any more.
    Over,
}

/// What a caller is going to do, thrown before it asks.
#[derive(Clone, Copy)]
struct Plan {
    way: Way,
    /// How long it waits for the lock.
    wait: Option<Duration>,
    /// After how long it goes away without an answer.
    leaves_after: Option<Duration>,
    holds: Duration,
    /// For how long its machine stands still as soon as it has the lock.
    stalls: Option<Micros>,
    parting: Parting,
    /// Goes on writing after it was told that the lock is lost.
    deaf: bool,
}

#[derive(Clone, Copy)]
enum Way {
    Try,
    Acquire,
    Run,
}

#[derive(Clone, Copy)]
enum Parting {
    Release,
    Drop,
    /// Asks for the release and goes away before the answer.
    HalfRelease,
}

impl Plan {
    fn throw(dice: &mut Dice) -> Plan {
        let way = match dice.within(0, 4) {
            0 => Way::Try,
            1 => Way::Run,
            _ => Way::Acquire,
        };
        let parting = match dice.within(0, 4) {
            0 => Parting::Drop,
            1 => Parting::HalfRelease,
            _ => Parting::Release,
        };
        let long = dice.chance(80);
        let (wait, leaves) = (dice.chance(300), dice.chance(100));
        Plan {
            way,
            wait: wait.then(|| micros(dice, 1_000, 800_000)),
            leaves_after: leaves.then(|| micros(dice, 1, 30_000)),
            stalls: dice.chance(15).then(|| dice.within(500_000, 1_200_000)),
            holds: if long { micros(dice, 100_000, 1_500_000) } else { micros(dice, 0, 10_000) },
            parting,
            deaf: dice.chance(300),
        }
    }
}

fn micros(dice: &mut Dice, least: u64, most: u64) -> Duration {
    Duration::from_micros(dice.within(least, most))
}

impl Caller {
    /// So many sections, one after the other.
    pub(super) async fn work(self, sections: usize) {
        for _ in 0..sections {
            let think = self.pause(0, 30_000);
            self.client.clock().sleep(think).await;
            let plan = Plan::throw(&mut self.dice.borrow_mut());
            self.section(plan).await;
        }
    }

    async fn section(&self, plan: Plan) {
        let call = self.site.calls.replace(self.site.calls.get() + 1);
        let lock = self.client.lock(NAME).ttl(TTL).label(&call.to_string());
        let lock = plan.wait.iter().fold(lock, |lock, wait| lock.wait(*wait)).build();
        let lock = lock.expect("the name and the ttl are within every backend's bounds");
        let section =
            Section { caller: self, call, stage: Cell::new(Stage::Asking), deadline: Cell::new(None), plan };
        self.site.log.write(What::Asked { call, client: self.machine });
        match plan.way {
            Way::Run => section.run(&lock).await,
            Way::Try | Way::Acquire => section.acquire(&lock).await,
        }
    }

    fn pause(&self, least: u64, most: u64) -> Duration {
        micros(&mut self.dice.borrow_mut(), least, most)
    }

    /// What `future` answers, unless this caller goes away before.
    async fn unless_gone<T>(&self, after: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
        match after {
            Some(after) => self.client.clock().timeout(after, future).await,
            None => Some(future.await),
        }
    }
}

impl Section<'_> {
    async fn acquire(&self, lock: &Lock) {
        let asking = async {
            match self.plan.way {
                Way::Try => lock.try_acquire().await,
                _ => lock.acquire().await.map(Some),
            }
        };
        let guard = match self.caller.unless_gone(self.plan.leaves_after, asking).await {
            Some(Ok(Some(guard))) => guard,
            Some(Ok(None)) => return self.is_refused(Why::Busy),
            Some(Err(error)) => return self.is_refused(why(&error)),
            None => return self.is_refused(Why::Cancelled),
        };
        self.hold(&guard).await;
        self.let_go();
        match self.plan.parting {
            Parting::Drop => drop(guard),
            Parting::Release => {
                let ending = guard.release().await;
                self.log(What::Ended { call: self.call, ending });
            }
            Parting::HalfRelease => {
                let leaves = self.caller.pause(1, 2_000);
                let ending = self.caller.unless_gone(Some(leaves), guard.release()).await;
                ending.into_iter().for_each(|ending| self.log(What::Ended { call: self.call, ending }));
            }
        }
    }

    async fn run(&self, lock: &Lock) {
        let work = lock.run(async |guard| {
            let _parting = Dropped { section: self, guard };
            self.hold(guard).await;
            self.let_go();
        });
        // Some go away in the middle of their work.
        let leaves = self.plan.leaves_after.map(|after| after + self.plan.holds / 2);
        let outcome = self.caller.unless_gone(leaves, work).await;
        match (outcome, self.stage.get()) {
            (Some(Err(error)), Stage::Asking) => self.is_refused(why(&error)),
            (None, Stage::Asking) => self.is_refused(Why::Cancelled),
            _ => {}
        }
    }

    /// Holds, looks, and writes, until it has had enough or is told that the lock is lost.
    async fn hold(&self, guard: &Guard) {
        let (site, machine) = (&self.caller.site, self.caller.machine);
        let clock = self.caller.client.clock();
        let token = guard.token().get();
        self.stage.set(Stage::Holding);
        self.log(What::Granted { call: self.call, token });
        site.somebody_was_granted();
        self.plan.stalls.into_iter().for_each(|lasts| site.stall(machine, lasts));
        let ends = clock.now() + self.plan.holds;
        let longest_step = 8_000 + self.plan.holds.as_micros() as u64 / 8;
        loop {
            self.look(guard);
            let next = (clock.now() + self.caller.pause(2_000, longest_step)).min(ends);
            let deadline = self.deadline.get().filter(|deadline| *deadline > clock.now());
            let next = deadline.map_or(next, |deadline| next.min(deadline));
            tokio::select! {
                biased;
                cause = guard.lost(), if self.stage.get() == Stage::Holding => {
                    self.is_told(Some(cause));
                    if !self.plan.deaf {
                        return;
                    }
                }
                () = site.looks[machine].notified() => {}
                () = clock.sleep_until(next) => self.write(guard),
            }
            if clock.now() >= ends {
                return;
            }
        }
    }

    fn look(&self, guard: &Guard) {
        let left = guard.valid_for();
        if left.is_zero() {
            return;
        }
        self.deadline.set(Some(self.now() + left));
        self.log(What::Held { call: self.call });
    }

    /// A write that takes its time to the resource.
    fn write(&self, guard: &Guard) {
        let site = &self.caller.site;
        let (call, token) = (self.call, guard.token());
        let (fence, log) = (site.fence.clone(), site.log.clone());
        let arrives = site.timeline.now() + self.caller.dice.borrow_mut().within(50, 3_000);
        site.timeline.at(arrives, None, move || {
            let accepted = fence.accept(token).is_ok();
            log.write(What::Wrote { call, token: token.get(), accepted });
        });
    }

    fn is_told(&self, cause: Option<Cause>) {
        self.stage.set(Stage::Over);
        let late = self.deadline.get().map_or(Duration::ZERO, |deadline| self.now().since(deadline));
        let awake = self.caller.site.timeline.awake_for(self.caller.machine);
        let late = u64::try_from(late.as_micros()).unwrap_or(u64::MAX).min(awake);
        self.log(What::Told { call: self.call, cause, late });
    }

    fn let_go(&self) {
        self.stage.set(Stage::Over);
        self.log(What::LetGo { call: self.call });
    }

    fn is_refused(&self, why: Why) {
        self.log(What::NotGranted { call: self.call, why });
    }

    fn now(&self) -> Instant {
        self.caller.client.clock().now()
    }

    fn log(&self, what: What) {
        self.caller.site.log.write(what);
    }
}

impl Site {
    /// The worst moment for a process to be stopped: it has just been told that the lock is its own.
    fn stall(&self, machine: Machine, lasts: Micros) {
        let begins = self.timeline.now();
        let fault = Fault { kind: Kind::Pause(machine), begins, ends: begins + lasts };
        self.log.write(What::Begins(fault));
        self.timeline.stop(machine, fault.ends);
        let log = self.log.clone();
        self.timeline.at(fault.ends, None, move || log.write(What::Over(fault)));
    }

    /// Who is granted the lock makes all others look at their guards: no overlap goes unseen.
    fn somebody_was_granted(&self) {
        for (machine, look) in self.looks.iter().enumerate() {
            // A machine that stands still looks when it goes on.
            if !self.timeline.is_stopped(machine) {
                look.notify_waiters();
            }
        }
    }
}

/// Work under `run` that is dropped: because the lock is lost, or because its caller went away.
struct Dropped<'a> {
    section: &'a Section<'a>,
    guard: &'a Guard,
}

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        if self.section.stage.get() != Stage::Holding {
            return;
        }
        match self.guard.is_held() {
            true => self.section.let_go(),
            false => self.section.is_told(None),
        }
    }
}

fn why(error: &Error) -> Why {
    match error.kind() {
        ErrorKind::Timeout => Why::Timeout,
        ErrorKind::Unavailable { .. } => Why::Unavailable,
        ErrorKind::Lost => Why::Lost,
        _ => Why::Unexpected,
    }
}
