//! Work that is done once per period, by the server's clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::driver::{Claim, Queueing, Revoked, When};
use lock_core::{
    Client, Completion, Ending, ErrorKind, Guard, Name, Options, Period, PeriodicGuard, PeriodicLock,
};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::ToldTime;
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Setting, holder_of, ms};
use crate::suspendable::Suspendable;
use crate::timing::{Answered, Returned, assert_in_time, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(a_server_without_time_refuses_before_it_takes, "slot-unsupported", [B35]),
    case!(a_run_that_ended_well_keeps_its_slot, "slot-kept, slot-begins-late", [B35]),
    case!(slots_begin_with_the_epoch, "slots", [B35]),
    case!(a_failed_run_gives_its_slot_back_at_once, "slot-given-back", [B35]),
    case!(a_dead_runs_slot_is_free_at_lease_end, "slot-given-back", [B4, B35]),
    case!(clients_with_clocks_apart_run_once_in_each_slot, "slots", [B35]),
    case!(a_run_beyond_its_slot_keeps_nothing, "slot-over", [B35]),
    case!(a_run_near_its_slots_end_frees_the_next, "slot-near-its-end", [B35]),
    case!(a_completion_that_is_dropped_keeps_the_slot, "slot-without-answer", [B1, B35]),
    case!(a_kept_slot_can_be_broken, "slot-broken", [B9, B35]),
    case!(a_kept_slot_is_told_from_a_run, "slot-done-is-shown", [B35]),
];

/// Returns the longest delay of a run that waits for its slot: its lease ends later by the two calls of the last
/// completion, and then it asks as after a death.
fn late(s: &Setting) -> Duration {
    bounds::after_a_death(&s.info, ms(100))
}

/// The server's clock, as a client reads it.
struct ServerClock(Box<dyn Claim>);

impl ServerClock {
    fn of(s: &Setting, client: &Client) -> ServerClock {
        ServerClock(s.claim(client, &s.name(), s.ttl(), Queueing::No))
    }

    /// Returns the time since 1970.
    async fn now(&mut self) -> Duration {
        let micros = self.0.server_time().answered().await.as_micros();
        Duration::from_micros(u64::try_from(micros).expect("it is later than 1970"))
    }
}

/// A slot that has just begun, and the period of which it is one.
#[derive(Clone, Copy)]
struct Slot {
    period: Period,
    began: Duration,
}

impl Slot {
    /// Returns a slot that begins now, by the server's clock, and that clock.
    async fn beginning(s: &Setting, length: Duration) -> (Slot, ServerClock) {
        let mut clock = ServerClock::of(s, &s.client().await);
        let began = clock.now().await;
        let period = Period::every(length).and_then(|period| period.with_offset(rest(began, length)));
        (Slot { period: period.expect("shorter than the period"), began }, clock)
    }

    /// Returns the lock with the case's ttl, and a client of its own.
    async fn lock(self, s: &Setting, name: &Name) -> PeriodicLock {
        self.lock_by(s, &s.client().await, name)
    }

    fn lock_by(self, s: &Setting, client: &Client, name: &Name) -> PeriodicLock {
        s.lock(client, name).build().and_then(|lock| lock.once_per(self.period)).expect("fine terms")
    }

    fn ends(self) -> Duration {
        self.began + self.period.length()
    }

    /// Fails the case because of time alone if the slot is over.
    async fn still_lasts(self, clock: &mut ServerClock) {
        assert_in_time!(clock.now().await < self.ends(), "the slot is over");
    }

    /// Returns for how long the slot has been over, now that another run has begun. Fails the case if it isn't over.
    async fn over_since(self, clock: &mut ServerClock) -> Duration {
        let (now, ends) = (clock.now().await, self.ends());
        let over = now.checked_sub(ends);
        over.unwrap_or_else(|| panic!("run twice in one slot, {:?} before its end", ends - now))
    }
}

/// Returns the rest of `time` after whole lengths.
fn rest(time: Duration, length: Duration) -> Duration {
    Duration::from_micros((time.as_micros() % length.as_micros()) as u64)
}

async fn taken(lock: &PeriodicLock) -> PeriodicGuard {
    lock.try_acquire().answered().await.expect("no other client has this name")
}

async fn is_taken(lock: &PeriodicLock) -> bool {
    lock.try_acquire().answered().await.is_none()
}

/// Completes work whose lock was held until then.
async fn completed(guard: PeriodicGuard) -> Completion {
    still_held(&guard);
    let left = guard.valid_for();
    match guard.complete().await {
        Completion::Lost => {
            assert_in_time!(left > ms(1000), "the server did not answer in the {left:?} of the lease");
            panic!("the lock was lost, {left:?} before its deadline");
        }
        completion => completion,
    }
}

/// The server's documents say whether it tells its time. It has to do what they say.
async fn a_server_without_time_refuses_before_it_takes(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let length = Duration::from_secs(3600).min(s.info.max_ttl);
    let period = Period::every(length).expect("an hour, or a ttl of some seconds");
    let lock = s.lock(&client, &name).built().once_per(period);
    if s.facts.told_time.is_ok() {
        let guard = taken(&lock.expect("its documents say that it can")).await;
        assert_eq!(guard.release().await, Ending::Released);
        return;
    }
    let refused = match lock {
        Ok(lock) => vec![lock.acquire().await.map(drop), lock.try_acquire().await.map(drop)],
        Err(error) => vec![Err(error)],
    };
    for outcome in refused {
        let error = outcome.expect_err("its documents say that it tells no time");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    }
    assert!(s.is_free(&name).await, "it was taken");
}

async fn a_run_that_ended_well_keeps_its_slot(s: Setting, _: ToldTime) {
    let (name, mine) = (s.name(), s.client().await);
    let (slot, mut clock) = Slot::beginning(&s, ms(3000)).await;
    let run = taken(&slot.lock_by(&s, &mine, &name)).await;
    assert_eq!(completed(run).await, Completion::Kept);
    // No process is alive: what keeps the slot is on the server.
    assert_eq!(mine.shutdown(bounds::EVENTUALLY).await, 0);
    drop(mine);
    let (other, plain) = (slot.lock(&s, &name).await, s.lock_elsewhere(&name).await.built());
    match holder_of(&plain).await {
        Some(holder) => assert!(holder.label.is_some_and(|label| label.starts_with("done: "))),
        None => {
            slot.still_lasts(&mut clock).await;
            panic!("the slot is not kept");
        }
    }
    let next = loop {
        match other.try_acquire().answered().await {
            Some(next) => break next,
            None => tokio::time::sleep(ms(20)).await,
        }
    };
    let over = slot.over_since(&mut clock).await;
    assert_in_time!(over < late(&s), "the next slot began {over:?} late");
    still_held(&next);
    assert_eq!(next.release().await, Ending::Released);
}

async fn slots_begin_with_the_epoch(s: Setting, _: ToldTime) {
    let (name, client) = (s.name(), s.client().await);
    let (mut clock, hour) = (ServerClock::of(&s, &client), Duration::from_secs(3600));
    let lock = s.lock(&client, &name).built();
    let period = Period::every(hour).expect("an hour is a period");
    let run = taken(&lock.clone().once_per(period).expect("fine terms")).await;
    let granted = clock.now().await;
    let completion = completed(run).await;
    let ends = granted - rest(granted, hour) + hour;
    // The hour may end just now.
    if clock.now().await + s.ttl() * 2 < ends {
        assert_eq!(completion, Completion::Kept);
        let before = clock.now().await;
        let kept = holder_of(&lock).await.and_then(|holder| holder.expires_in);
        let (kept, after) = (kept.expect("the lease has an end"), clock.now().await);
        // Servers tell whole milliseconds.
        assert!(after + kept + ms(2) >= ends, "kept for {kept:?} only: not to the hour's end");
        let over = (before + kept).saturating_sub(ends);
        assert_in_time!(over < ms(200), "kept {over:?} longer than the hour");
    }
}

async fn a_failed_run_gives_its_slot_back_at_once(s: Setting, _: ToldTime) {
    let name = s.name();
    let (slot, mut clock) = Slot::beginning(&s, ms(60_000)).await;
    let (first, second) = (slot.lock(&s, &name).await, slot.lock(&s, &name).await);
    let failed = first.try_run(async |_: &Guard| Err::<(), _>("failed")).answered().await;
    assert_eq!(failed, Some(Err("failed")));
    let run = taken(&second).await;
    assert_eq!(run.release().await, Ending::Released);
    drop(taken(&first).await);
    until("what a dropped guard held is free", bounds::EVENTUALLY, || async {
        match second.try_acquire().answered().await {
            Some(run) => run.release().await == Ending::Released,
            None => false,
        }
    })
    .await;
    slot.still_lasts(&mut clock).await;
}

async fn a_dead_runs_slot_is_free_at_lease_end(s: Setting, _: ToldTime) {
    let name = s.name();
    let (slot, mut clock) = Slot::beginning(&s, ms(60_000)).await;
    let other = slot.lock(&s, &name).await;
    let (setting, dying) = (s.clone(), name.clone());
    // A runtime that ends without a release, as a process that dies.
    on_a_thread(move || {
        let runtime = Runtime::new().expect("the machine has room for a runtime");
        runtime.block_on(async {
            let client = setting.client().await;
            let run = taken(&slot.lock_by(&setting, &client, &dying)).await;
            std::mem::forget((run, client));
        });
        runtime.shutdown_background();
    })
    .await;
    let next = within("its lease ends", late(&s) + s.ttl(), other.acquire()).answered().await;
    slot.still_lasts(&mut clock).await;
    assert_eq!(next.release().await, Ending::Released);
}

/// The clocks of the clients are minutes apart, and no multiple of the period.
async fn clients_with_clocks_apart_run_once_in_each_slot(s: Setting, _: ToldTime) {
    let name = s.name();
    let (slot, mut clock) = Slot::beginning(&s, ms(1500)).await;
    let (runs, length) = (Arc::new(Mutex::new(Vec::new())), slot.period.length());
    let last = slot.began + length * 3;
    let mut clients = JoinSet::new();
    for ahead in [ms(0), ms(61_700), ms(420_300)] {
        let machine = Suspendable::default();
        machine.sleeps(ahead);
        let client = s.client_with(Options::default().clock(machine.clock())).await;
        let (lock, mut clock) = (slot.lock_by(&s, &client, &name), ServerClock::of(&s, &client));
        let runs = runs.clone();
        clients.spawn(async move {
            while clock.now().await < last {
                if let Some(run) = lock.try_acquire().answered().await {
                    let at = clock.now().await;
                    runs.lock().expect("no panic under it").push(at);
                    completed(run).await;
                }
                tokio::time::sleep(ms(5)).await;
            }
        });
    }
    clients.join_all().await;
    // A time of after the grant: a run near its slot's end may be counted for the next slot, whose run it keeps out.
    let runs = std::mem::take(&mut *runs.lock().expect("no panic under it"));
    let number = |at: &Duration| at.saturating_sub(slot.began).as_micros() / length.as_micros();
    let numbers: Vec<u128> = runs.iter().map(number).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "run twice in one slot: {numbers:?}, at {runs:?}");
    assert!(numbers.starts_with(&[0, 1]), "no client ran in one of the slots: {numbers:?}, at {runs:?}");
    assert!(clock.now().await >= slot.ends());
}

async fn a_run_beyond_its_slot_keeps_nothing(s: Setting, _: ToldTime) {
    let name = s.name();
    let (slot, mut clock) = Slot::beginning(&s, ms(1000)).await;
    let run = taken(&slot.lock(&s, &name).await).await;
    tokio::time::sleep(ms(900)).await;
    while clock.now().await < slot.ends() {
        tokio::time::sleep(ms(5)).await;
    }
    assert_eq!(completed(run).await, Completion::SlotOver);
    let next = taken(&slot.lock(&s, &name).await).await;
    assert_eq!(next.release().await, Ending::Released);
}

/// When it ends, its lease lasts longer than its slot.
async fn a_run_near_its_slots_end_frees_the_next(s: Setting, _: ToldTime) {
    let (name, client) = (s.name(), s.client().await);
    let (slot, mut clock) = Slot::beginning(&s, ms(1500)).await;
    let lock = client.lock(name.as_str()).ttl(s.long()).build().and_then(|lock| lock.once_per(slot.period));
    let run = taken(&lock.expect("fine terms")).await;
    let other = slot.lock(&s, &name).await;
    let completion = tokio::spawn(completed(run));
    let next = within("the next slot", slot.period.length() + late(&s), other.acquire()).answered().await;
    slot.over_since(&mut clock).await;
    assert_eq!(completion.await.returned(), Completion::Kept);
    assert_eq!(next.release().await, Ending::Released);
}

async fn a_completion_that_is_dropped_keeps_the_slot(s: Setting, _: ToldTime) {
    let (name, client) = (s.name(), s.client().await);
    let (slot, mut clock) = Slot::beginning(&s, ms(60_000)).await;
    let lock = s.lock(&client, &name).built();
    let other = slot.lock(&s, &name).await;
    let run = taken(&slot.lock_by(&s, &client, &name)).await;
    // Polled once.
    drop(tokio::time::timeout(Duration::ZERO, run.complete()).await);
    until("the lease lasts to the slot's end", bounds::EVENTUALLY, || async {
        let left = holder_of(&lock).await.expect("it is not given back").expires_in;
        left.is_some_and(|left| left > ms(30_000).max(s.ttl() * 2))
    })
    .await;
    assert!(is_taken(&other).await, "another client can run in the same slot");
    slot.still_lasts(&mut clock).await;
}

async fn a_kept_slot_can_be_broken(s: Setting, _: ToldTime) {
    let (name, client) = (s.name(), s.client().await);
    let (slot, mut clock) = Slot::beginning(&s, ms(60_000)).await;
    let lock = s.lock(&client, &name).built();
    let once = slot.lock_by(&s, &client, &name);
    assert_eq!(completed(taken(&once).await).await, Completion::Kept);
    assert!(is_taken(&once).await, "not even this client can run again");
    // No holder is left that would have to be told: it is free at once in any case.
    for when in [When::Now, When::HoldersDeadline] {
        let holder = holder_of(&lock).await.expect("the slot is kept");
        assert_eq!(lock.revoke(&holder.owner, when).answered().await, Revoked::Free, "{when:?}");
        assert_eq!(lock.revoke(&holder.owner, when).answered().await, Revoked::NotHeld, "{when:?}");
        let again = taken(&once).await;
        slot.still_lasts(&mut clock).await;
        assert_eq!(completed(again).await, Completion::Kept);
    }
}

async fn a_kept_slot_is_told_from_a_run(s: Setting, _: ToldTime) {
    let (name, client) = (s.name(), s.client().await);
    let (slot, _clock) = Slot::beginning(&s, ms(60_000)).await;
    let lock = s.lock(&client, &name).label("done: no such thing").built();
    let run = taken(&lock.clone().once_per(slot.period).expect("fine terms")).await;
    let shown = async || holder_of(&lock).await.expect("it is held");
    let running = shown().await;
    assert!(!running.is_done(), "{running:?}");
    assert_eq!(completed(run).await, Completion::Kept);
    let kept = shown().await;
    assert!(kept.is_done(), "{kept:?}");
    assert!(kept.to_string().starts_with("done by "), "{kept}");
}
