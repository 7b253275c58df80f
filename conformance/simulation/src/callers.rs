//! The callers: each asks for a lock, holds it, writes to the resource, and releases the lock. A caller may go away at
//! any time: it then drops its future before the answer.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use lock_core::driver::When;
use lock_core::{Client, Error, ErrorKind, Guard, Instant, Lock, LossReason};

use super::dice::Dice;
use super::faults::Fault;
use super::ids::CallId;
use super::log::{Parting, Wait, What, Why};
use super::plan::{ByHand, Operation, Plan};
use super::setting::NAMES;
use super::site::Site;
use super::timeline::{Machine, micros};

/// A task that asks for locks again and again.
pub(super) struct Caller {
    pub(super) site: Rc<Site>,
    pub(super) client: Client,
    pub(super) machine: Machine,
    pub(super) dice: RefCell<Dice>,
}

/// One call: from the request for the lock to the end of the hold.
struct Section<'a> {
    caller: &'a Caller,
    call: CallId,
    stage: Cell<Stage>,
    /// The guard's deadline, as read when the guard was last seen to be held.
    deadline: Cell<Option<Instant>>,
    plan: Plan,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Asking,
    Holding,
    /// The caller was told of the loss, or let the guard go. What the guard says no longer counts.
    Over,
}

impl Caller {
    /// Runs the sections that are left, one after the other, and revokes locks in between. A section is counted when it
    /// begins, however it ends.
    pub(super) async fn work(self, left: Rc<Cell<usize>>) {
        while left.get() > 0 {
            let think = self.pause(0, 30_000);
            self.client.clock().sleep(think).await;
            let plan = Plan::throw(&mut self.dice.borrow_mut(), self.site.locks, self.site.script);
            match plan.operation {
                Operation::Revoke(when) => self.revoke(plan, when).await,
                _ => {
                    left.set(left.get() - 1);
                    self.section(plan).await;
                }
            }
        }
    }

    async fn section(&self, plan: Plan) {
        let call = self.site.next_call();
        let lock = self.lock(call, &plan);
        let (client, terms) = (self.machine, plan.terms);
        let (stage, deadline) = (Cell::new(Stage::Asking), Cell::new(None));
        let section = Section { caller: self, call, stage, deadline, plan };
        let waits = match (plan.operation, plan.wait) {
            (Operation::Try, _) => Wait::Not,
            (_, Some(wait)) => Wait::For(wait),
            (_, None) => Wait::Ever,
        };
        section.log(What::Asked { call, client, lock: plan.lock, terms, waits });
        match plan.operation {
            Operation::Run => section.run(&lock).await,
            Operation::Try => section.acquire(async { lock.try_acquire().await }).await,
            _ => section.acquire(async { lock.acquire().await.map(Some) }).await,
        }
    }

    /// Revokes a lock from its current holder, if the server says who that is.
    async fn revoke(&self, plan: Plan, when: When) {
        let call = self.site.next_call();
        let lock = self.lock(call, &plan);
        self.site.log.write(What::Revokes { call, client: self.machine, lock: plan.lock, when });
        if let Ok(Some(holder)) = lock.inspect().await.map(|inspection| inspection.holder) {
            // The server's side of the log shows whether the revoke succeeded.
            drop(lock.revoke(&holder.owner, when).await);
        }
    }

    fn lock(&self, call: CallId, plan: &Plan) -> Lock {
        let terms = plan.terms;
        let mut lock = self.client.lock(NAMES[plan.lock]).ttl(terms.ttl).label(call.to_string());
        if terms.fixed {
            lock = lock.fixed_lease();
        }
        if let Some(wait) = plan.wait {
            lock = lock.wait(wait);
        }
        if let Some(most) = terms.max_hold {
            lock = lock.max_hold(most);
        }
        if let Some(least) = terms.min_hold {
            lock = lock.min_hold(least);
        }
        lock.build().expect("names and terms are within every backend's bounds")
    }

    fn pause(&self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.dice.borrow_mut().within(least, most))
    }

    /// Returns the output of `future`, or nothing if this caller goes away before it is there.
    async fn unless_gone<T>(&self, after: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
        match after {
            Some(after) => self.client.clock().timeout(after, future).await,
            None => Some(future.await),
        }
    }
}

impl Section<'_> {
    async fn acquire(&self, asking: impl Future<Output = lock_core::Result<Option<Guard>>>) {
        let guard = match self.caller.unless_gone(self.plan.leaves_after, asking).await {
            Some(Ok(Some(guard))) => guard,
            Some(Ok(None)) => return self.is_refused(Why::Busy),
            Some(Err(error)) => return self.is_refused(why(&error)),
            None => return self.is_refused(Why::Cancelled),
        };
        self.hold(&guard).await;
        self.let_go(&guard, self.plan.parting);
        let leaves = match self.plan.parting {
            Parting::HalfRelease => Some(self.caller.pause(1, 2_000)),
            Parting::Release => None,
            _ => return drop(guard),
        };
        let ending = self.caller.unless_gone(leaves, guard.release()).await;
        let call = self.call;
        self.log(ending.map_or(What::Left(call), |ending| What::Ended { call, ending }));
    }

    async fn run(&self, lock: &Lock) {
        let work = lock.run(async |guard| {
            let _log_on_drop = LogOnDrop { section: self, guard };
            self.hold(guard).await;
            self.let_go(guard, Parting::Run);
        });
        // Some callers go away in the middle of their work.
        let leaves = self.plan.leaves_after.map(|after| after + self.plan.holds / 2);
        let outcome = self.caller.unless_gone(leaves, work).await;
        match (outcome, self.stage.get()) {
            (Some(Err(error)), Stage::Asking) => self.is_refused(why(&error)),
            (None, Stage::Asking) => self.is_refused(Why::Cancelled),
            _ => {}
        }
    }

    /// Holds the lock, looks at the guard and writes, until the planned time is over. A caller that is told of a loss
    /// stops at once, unless its plan says `ignores_loss`.
    async fn hold(&self, guard: &Guard) {
        let (site, machine, lock) = (&self.caller.site, self.caller.machine, self.plan.lock);
        let clock = self.caller.client.clock();
        self.is_granted(guard).await;
        let ends = clock.now() + self.plan.holds;
        let longest_step = 8_000 + self.plan.holds.as_micros() as u64 / 8;
        let mut renewal = pin!(self.renew(guard));
        let mut renews = true;
        while clock.now() < ends {
            self.look(guard);
            let next = (clock.now() + self.caller.pause(2_000, longest_step)).min(ends);
            let deadline = self.deadline.get().filter(|deadline| *deadline > clock.now());
            let next = deadline.map_or(next, |deadline| next.min(deadline));
            tokio::select! {
                biased;
                cause = guard.lost(), if self.stage.get() == Stage::Holding => {
                    self.is_told(Some(cause));
                    if !self.plan.ignores_loss {
                        return;
                    }
                }
                () = &mut renewal, if renews => renews = false,
                () = site.look(machine, lock) => {}
                () = clock.sleep_until(next) => {
                    let takes = self.caller.dice.borrow_mut().within(50, 3_000);
                    site.write(lock, self.call, guard.token(), takes);
                }
            }
        }
    }

    async fn is_granted(&self, guard: &Guard) {
        let (site, plan) = (&self.caller.site, &self.plan);
        self.stage.set(Stage::Holding);
        let (token, late) = (guard.token().get(), is_late(guard).await);
        self.log(What::Granted { call: self.call, token, late });
        site.wake_holders(plan.lock);
        if let Some(thrown) = plan.fault_at_grant {
            let (dice, machine) = (&mut self.caller.dice.borrow_mut(), self.caller.machine);
            site.schedule_fault(Fault::at_grant(thrown, dice, site.timeline.now(), machine, plan.lock));
        }
    }

    /// Asks for a renewal, if the plan says so.
    async fn renew(&self, guard: &Guard) {
        let Some(ByHand { after, ttl }) = self.plan.renews else { return };
        self.caller.client.clock().sleep(after).await;
        self.log(What::Renews(self.call));
        if guard.renew(ttl).await.is_ok() {
            self.log(What::Renewed(self.call));
        }
    }

    fn look(&self, guard: &Guard) {
        let left = guard.valid_for();
        if left.is_zero() {
            return;
        }
        self.deadline.set(Some(self.now() + left));
        self.log(What::Held { call: self.call, left: micros(left) });
    }

    fn is_told(&self, cause: Option<LossReason>) {
        self.stage.set(Stage::Over);
        let late = self.deadline.get().map_or(Duration::ZERO, |deadline| self.now().since(deadline));
        let awake = self.caller.site.timeline.awake_for(self.caller.machine);
        let late = u64::try_from(late.as_micros()).unwrap_or(u64::MAX).min(awake);
        let left = self.deadline.get().map_or(Duration::ZERO, |deadline| deadline.since(self.now()));
        self.log(What::Told { call: self.call, cause, late, left: micros(left) });
    }

    fn let_go(&self, guard: &Guard, parting: Parting) {
        self.stage.set(Stage::Over);
        let left = micros(guard.valid_for());
        self.log(What::LetGo { call: self.call, parting, left });
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

/// Logs the end of work under `run` that is dropped, because the lock is lost or because its caller went away.
struct LogOnDrop<'a> {
    section: &'a Section<'a>,
    guard: &'a Guard,
}

impl Drop for LogOnDrop<'_> {
    fn drop(&mut self) {
        if self.section.stage.get() != Stage::Holding {
            return;
        }
        match self.guard.is_held() {
            true => self.section.let_go(self.guard, Parting::Gone),
            false => self.section.is_told(None),
        }
    }
}

/// Returns whether the lease had ended before the caller could use its guard. A guard that is lost for another reason
/// is not late.
async fn is_late(guard: &Guard) -> bool {
    let cause = tokio::select! {
        biased;
        cause = guard.lost() => Some(cause),
        () = std::future::ready(()) => None,
    };
    !guard.is_held() && matches!(cause, None | Some(LossReason::Expired))
}

fn why(error: &Error) -> Why {
    match error.kind() {
        ErrorKind::Timeout => Why::Timeout,
        ErrorKind::Unavailable { .. } => Why::Unavailable,
        ErrorKind::Lost => Why::Lost,
        _ => Why::Unexpected,
    }
}
