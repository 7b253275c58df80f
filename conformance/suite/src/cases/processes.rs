//! Whole processes that are killed and stopped. The holder is the program `lock`.

mod counting;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{Fence, FencingToken, Guard, Lock, Name, Random, driver};

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{ChildProcess, Command, Ended, Finished, LockProgram, Processes, Wait};
use crate::part::{Order, Part, PartProcess};
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Setting, granted_within, holder_of, ms};
use crate::timing::{Answered, assert_in_time, released, too_late};

use counting::{a_storm_of_killed_processes_damages_nothing, processes_hand_the_lock_over};

pub(crate) const CASES: &[Case] = &[
    case!(a_killed_holder_frees_the_lock_within_its_ttl, "takeover-in-time, holder-killed", [B5, B20]; load Medium),
    case!(a_stopped_holder_loses_the_lock_and_says_so, "run-stopped, holder-stopped", [B9, B20]),
    case!(a_holder_stopped_beyond_its_lease_is_told_first, "stopped, holder-stopped", [B9, B11, B20]),
    case!(a_holder_stopped_for_half_its_lease_keeps_it, "stopped-for-half, holder-stopped", [B20]),
    case!(processes_hand_the_lock_over, "one-holder", [B4, B34]; load Heavy),
    case!(a_storm_of_killed_processes_damages_nothing, "one-holder, holder-killed", [B2, B5, B13, B34]; load Heavy),
];

/// Long enough to start a process in, short enough to wait for.
pub(super) const TTL: Duration = ms(1000);
const LONG: Duration = Duration::from_secs(20);

/// A process that runs the program `lock`.
pub(super) type Holder = Box<dyn ChildProcess>;

/// Starts a holder, which runs a script.
fn start(program: &dyn LockProgram, name: &Name, wait: Wait, script: &str) -> Holder {
    let (url, run) = (program.url(), &["sh", "-c", script]);
    let command = Command { on: &url, name: name.as_str(), ttl: TTL, wait, run, time_zone: None };
    program.run(&command).expect("the program lock starts")
}

/// Starts a holder that does not wait for its lock. Its command shows by repeating its input that it has not been ended.
pub(super) async fn holding(
    program: &dyn LockProgram,
    url: &str,
    name: &Name,
    time_zone: Option<&str>,
) -> Holder {
    let run = &["sh", "-c", REPEATS];
    let command = Command { on: url, name: name.as_str(), ttl: TTL, wait: Wait::No, run, time_zone };
    started(program.run(&command).expect("the program lock starts")).await
}

async fn started(holder: Holder) -> Holder {
    on_a_thread(move || {
        match holder.line(LONG) {
            Ok(line) => assert_eq!(line, "held"),
            Err(e) => match holder.finish(ms(1000)) {
                Ok(finished) => ended_too_soon("it does not say that it holds", &finished),
                Err(_) => panic!("it does not say that it holds: {e}"),
            },
        }
        holder
    })
    .await
}

async fn finished(holder: Holder) -> Finished {
    on_a_thread(move || holder.finish(LONG).expect("it comes to its end")).await
}

async fn a_killed_holder_frees_the_lock_within_its_ttl(s: Setting, program: Arc<dyn LockProgram>) {
    dies_while_another_waits(&s, &*program, None).await;
}

/// Kills the holder without notice. A client that has waited since before gets the lock when the lease ends.
pub(super) async fn dies_while_another_waits(
    s: &Setting,
    program: &dyn LockProgram,
    time_zone: Option<&str>,
) {
    let name = s.name();
    let holder = holding(program, &program.url(), &name, time_zone).await;
    let lock = s.lock_elsewhere(&name).await.ttl(TTL).built();
    let (looking, seen) = (lock.clone(), lock.try_acquire().answered().await);
    let mut waiter = tokio::spawn(async move { lock.acquire().await.map(|guard| (Instant::now(), guard)) });
    if seen.is_some() || tokio::time::timeout(TTL * 5 / 4, &mut waiter).await.is_ok() {
        is_not_renewed(holder).await;
    }
    let (lease, killed) = Lease::of_killed(s, holder, &looking).await;
    let (granted, guard) = granted_within("the lease ends", LONG, waiter).await;
    let (took, bound) = (granted - killed, bounds::after_a_death(&s.info, TTL));
    assert_in_time!(took <= bound, "{took:?} after the holder's death: no more than {bound:?} is promised");
    lease.is_over(&guard, granted, took);
}

/// Fails the case with the output of a holder that has lost the lock.
pub(super) async fn is_not_renewed(holder: Holder) -> ! {
    ended_too_soon("it is not renewed", &finished(holder).await)
}

/// Fails the case because the program has ended although its command should have gone on. That is lateness only if the
/// program says so with the exit status that belongs to it.
fn ended_too_soon(what: &str, finished: &Finished) -> ! {
    let what = format!("{what}: {finished:?}");
    match (finished.ended, finished.stderr.as_str()) {
        // A request has a third of the ttl.
        (Ended::Status(69), said) if said.contains("did not answer within") => too_late(&what),
        (Ended::Status(74), said) if said.contains("could not be renewed") => too_late(&what),
        _ => panic!("{what}"),
    }
}

/// The command of a holder. By repeating its input it shows that it has not been ended.
const REPEATS: &str = "echo held; exec cat";

/// A lease as it was shown before its holder's death. It must not end sooner.
pub(super) struct Lease {
    token: Option<FencingToken>,
    ends: Option<Instant>,
    /// Kept, with what the dead holder has left behind.
    _dead: Holder,
}

impl Lease {
    /// Kills the holder, which runs `REPEATS`. Returns its lease as it was shown right before, and when it was killed.
    pub(super) async fn of_killed(s: &Setting, holder: Holder, lock: &Lock) -> (Lease, Instant) {
        // From here on it releases nothing. It has not done so before, if its command still runs.
        holder.pause().expect("it was running");
        let (said, holder) = on_a_thread(move || {
            let mut holder = holder;
            (holder.tell("still").and_then(|()| holder.line(LONG)), holder)
        })
        .await;
        if said.as_deref().ok() != Some("still") {
            holder.resume().expect("it was stopped");
            is_not_renewed(holder).await;
        }
        let asked = Instant::now();
        let shown = holder_of(lock).await;
        let killed = Instant::now();
        holder.kill().expect("it was stopped");
        let token = shown.as_ref().and_then(|shown| shown.token);
        // A session does not tell how much time it has left.
        let told = shown.filter(|_| s.info.lease == driver::Lease::Lock);
        let left = told.and_then(|shown| shown.expires_in);
        (Lease { token, ends: left.map(|left| asked + left), _dead: holder }, killed)
    }

    /// Checks that the lease was over when another client was granted the lock, which was `took` after the holder's
    /// death.
    pub(super) fn is_over(&self, next: &Guard, granted: Instant, took: Duration) {
        assert_in_time!(self.token != Some(next.token()), "it was lost before its holder's death");
        match self.ends {
            // Servers round to the millisecond.
            Some(end) => assert!(granted + ms(2) >= end, "{:?} before its lease was over", end - granted),
            None => assert_in_time!(took > TTL / 2, "{took:?} after its holder's death"),
        }
    }
}

async fn a_stopped_holder_loses_the_lock_and_says_so(s: Setting, program: Arc<dyn LockProgram>) {
    let name = s.name();
    let holder = started(start(&*program, &name, Wait::No, "echo held; exec sleep 60")).await;
    holder.pause().expect("it was running");
    let guard =
        s.lock_elsewhere(&name).await.ttl(LONG).held_within("the lease ends", TTL * 3 + ms(1000)).await;
    holder.resume().expect("it was stopped");
    let Finished { ended, stderr, .. } = finished(holder).await;
    assert_eq!(ended, Ended::Status(74), "{stderr}");
    assert!(stderr.contains("lost"), "{stderr}");
    released(guard).await;
}

/// Starts a process that works under the lock with the library, without the program `lock` and its watcher.
async fn working(processes: &dyn Processes, name: &Name) -> (PartProcess, FencingToken) {
    let mut part = Order { part: Part::Late, name: name.to_string(), ttl: TTL }.start(processes);
    let token = part.holds().await;
    // It is renewed for some time, so that the stop may come at any phase.
    tokio::time::sleep(Random::system().up_to(TTL)).await;
    (part, token)
}

/// Stops the process while it holds.
async fn stop(part: &mut PartProcess) {
    if let Err(error) = part.process().pause() {
        let said = part.says().await;
        assert_in_time!(said != EXPIRED, "it could not go on in time: {said}");
        panic!("{error}; it says {said}");
    }
}

/// The line of a holder that was told as soon as its lease had ended.
const EXPIRED: &str = "Lost, held: false, worked late: false, Expired, renewed: false, Expired";

async fn a_holder_stopped_beyond_its_lease_is_told_first(s: Setting, processes: Arc<dyn Processes>) {
    for stopped in [TTL * 3 / 2, TTL * 3] {
        let (name, resource) = (s.name(), Fence::new());
        let (mut part, token) = working(&*processes, &name).await;
        resource.accept(token).expect("the first");
        stop(&mut part).await;
        let since = Instant::now();
        let limit = bounds::after_a_death(&s.info, TTL);
        let guard = s.lock_elsewhere(&name).await.ttl(LONG).held_within("the lease ends", limit).await;
        assert!(guard.token() > token);
        resource.accept(guard.token()).expect("the second");
        tokio::time::sleep(stopped.saturating_sub(since.elapsed())).await;
        part.process().resume().expect("it was stopped");
        assert_eq!(part.says().await, EXPIRED);
        assert!(resource.accept(token).is_err(), "its token comes too late");
        guard.renew(LONG).answered().await;
        released(guard).await;
    }
}

async fn a_holder_stopped_for_half_its_lease_keeps_it(s: Setting, processes: Arc<dyn Processes>) {
    let name = s.name();
    let (mut part, _) = working(&*processes, &name).await;
    for _ in 0..3 {
        stop(&mut part).await;
        tokio::time::sleep(TTL / 2).await;
        part.process().resume().expect("it was stopped");
        let end = Instant::now() + TTL;
        while Instant::now() < end {
            if s.is_free(&name).await {
                let said = part.says().await;
                // At least a sixth of its lease was left to it.
                assert_in_time!(said != EXPIRED, "it could not go on in time: {said}");
                panic!("it is free, and its holder says {said}");
            }
            tokio::time::sleep(TTL / 10).await;
        }
    }
}
