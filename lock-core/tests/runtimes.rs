// Proves: runtime-stands-still
//! A client whose runtime ends or stands still: each call of its callers ends all the same, wherever they
//! run, and nothing is left when the runtime goes on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, unreachable_pub, reason = "this test needs little of it")]
mod scripted;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use lock_core::driver::{Attempt, Release, Renewal, Revoked, When};
use lock_core::{
    Client, Clock, Effect, Ending, Error, ErrorKind, Event, Guard, Lock, LossReason, MultiGuard, MultiLock,
    Options, OwnerBytes, Period, PeriodicGuard, Reentrant, Result,
};
use scripted::{Script, Step, busy, driver, granted, held, ms, released};
use tokio::runtime::{Builder, Runtime};

const TTL: Duration = ms(2000);
const PATIENCE: Duration = ms(300);
/// The longest that any of the calls takes: an `acquire` without a limit, on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn script(attempts: impl IntoIterator<Item = Step<Attempt>>) -> Arc<Script> {
    let script = Script::new(attempts, [held(TTL)], [released()]);
    script.answers_by_a_task.set(()).unwrap();
    script
}

/// Opens a client by the operating system's clock.
async fn open(script: &Arc<Script>, options: Options) -> Result<Client> {
    let connect = |_| std::future::ready(Ok(driver(script, Clock::system())));
    options.patience(PATIENCE).open("scripted", "", connect).await
}

fn opened(home: &Runtime, script: &Arc<Script>) -> Client {
    home.block_on(open(script, Options::default())).unwrap()
}

fn named(client: &Client, name: &str) -> Lock {
    client.lock(name).ttl(TTL).build().unwrap()
}

/// Polls `future` on this thread: an executor without timers, which is on no runtime.
fn by_hand<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(out) => return out,
            Poll::Pending => thread::park(),
        }
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// The locks and guards that were held while the runtime ran, for the calls of a test.
struct Held {
    client: Client,
    guards: Vec<Guard>,
    several: Vec<MultiGuard>,
    periodic: Vec<PeriodicGuard>,
}

impl Held {
    /// Opens a client on `home` and takes the locks.
    fn on(home: &Runtime, script: &Arc<Script>) -> Held {
        script.times.lock().unwrap().push_back((ms(1), Ok(0)));
        let client = opened(home, script);
        home.block_on(async {
            let (mut guards, mut several, mut periodic) = (Vec::new(), Vec::new(), Vec::new());
            for n in 0..8 {
                guards.push(named(&client, &format!("held {n}")).acquire().await.unwrap());
                let both = ["x", "y"].map(|name| named(&client, &format!("{name}{n}")));
                several.push(MultiLock::new(both).unwrap().acquire().await.unwrap());
                let once = named(&client, &format!("once {n}")).once_per(hourly()).unwrap();
                periodic.push(once.acquire().await.unwrap());
            }
            Held { client, guards, several, periodic }
        })
    }
}

fn hourly() -> Period {
    Period::every(Duration::from_secs(3600)).unwrap()
}

type Call = (&'static str, Pin<Box<dyn Future<Output = String> + Send>>);

fn call(name: &'static str, future: impl Future<Output = String> + Send + 'static) -> Call {
    (name, Box::pin(future))
}

/// Returns the message of a call of a client without an answer.
fn said<T>(outcome: Result<T>) -> String {
    outcome.map_or_else(|error| error.to_string(), |_| "an answer".to_owned())
}

/// Every call that waits for something, with what it works on.
fn calls(held: Held) -> Vec<Call> {
    let Held { client, mut guards, mut several, mut periodic } = held;
    let lock = |name: &str| named(&client, name);
    let waiting = |name: &str, wait| client.lock(name).ttl(TTL).wait(wait).build().unwrap();
    let both = |name: &str| MultiLock::new([lock(name), lock("another")]).unwrap();
    let once = |name: &str| lock(name).once_per(hourly()).unwrap();
    let owner = OwnerBytes::new(*b"theirs");
    let entered = client.lock("entered").ttl(TTL).wait(ms(500)).reentrant(&Reentrant::new()).build().unwrap();
    let mut guard = || guards.pop().unwrap();
    let (c, o) = (client.clone(), owner);
    let mut all = Vec::new();
    let l = lock("a");
    all.push(call("acquire", async move { said(l.acquire().await) }));
    for wait in [Duration::ZERO, ms(50), ms(700)] {
        let l = waiting("b", wait);
        all.push(call("acquire that waits", async move { said(l.acquire().await) }));
    }
    all.push(call("reentrant acquire", async move { said(entered.acquire().await) }));
    let l = lock("c");
    all.push(call("try_acquire", async move { said(l.try_acquire().await) }));
    let l = lock("d");
    all.push(call("run", async move { said(l.run(async |_| ()).await) }));
    let l = lock("e");
    all.push(call("try_run", async move { said(l.try_run(async |_| ()).await) }));
    let l = lock("f");
    all.push(call("inspect", async move { said(l.inspect().await) }));
    let l = lock("g");
    all.push(call("revoke", async move { said(l.revoke(&o, When::Now).await) }));
    let m = both("h");
    all.push(call("acquire of several", async move { said(m.acquire().await) }));
    let m = both("i").wait(ms(500));
    all.push(call("acquire of several that waits", async move { said(m.acquire().await) }));
    let m = both("j");
    all.push(call("try_acquire of several", async move { said(m.try_acquire().await) }));
    let p = once("k");
    all.push(call("acquire once", async move { said(p.acquire().await) }));
    let p = once("l");
    all.push(call("try_acquire once", async move { said(p.try_acquire().await) }));
    let client = c.clone();
    all.push(call("check", async move { said(client.check().await) }));
    let client = c.clone();
    all.push(call("init", async move { said(client.init().await) }));
    let client = c.clone();
    all.push(call("list", async move { said(client.list("").await) }));
    let client = c.clone();
    all.push(call("shutdown", async move { format!("{} left", client.shutdown(ms(500)).await) }));
    let g = guard();
    all.push(call("renew", async move { said(g.renew(TTL).await) }));
    let g = guard();
    all.push(call("lost", async move { format!("{:?}", g.lost().await) }));
    let g = guard();
    all.push(call("at_risk", async move { format!("{:?}", g.at_risk(TTL / 3).await) }));
    let g = guard();
    all.push(call("protect", async move { said(g.protect(std::future::pending::<()>()).await) }));
    let g = guard();
    all.push(call("release", async move { format!("{:?}", g.release().await) }));
    let g = several.pop().unwrap();
    all.push(call("renew of several", async move { said(g.renew(TTL).await) }));
    let g = several.pop().unwrap();
    all.push(call("lost of several", async move { format!("{:?}", g.lost().await.1) }));
    let g = several.pop().unwrap();
    all.push(call("release of several", async move { format!("{:?}", g.release().await) }));
    // Its lease ends before those whose loss is awaited: none of it is left to keep the slot when the runtime goes on.
    let g = periodic.remove(0);
    all.push(call("complete", async move { format!("{:?}", g.complete().await) }));
    let clock = c.clock().clone();
    all.push(call("sleep", async move {
        clock.sleep(ms(200)).await;
        "slept".to_owned()
    }));
    all
}

/// The place where the callers run.
#[derive(Clone, Copy, Debug)]
enum Callers {
    /// On another runtime.
    OnARuntime,
    /// On threads that poll by themselves.
    ByHand,
    /// On threads that poll by themselves, inside of the client's runtime.
    Entered,
}

/// Makes all calls at once, each on a thread of its own, and returns what they say. Panics if one has no end.
fn make(calls: Vec<Call>, callers: Callers, home: &tokio::runtime::Handle) -> Vec<(&'static str, String)> {
    let (say, all_say) = mpsc::channel();
    let mut open: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    for (name, future) in calls {
        let (say, home) = (say.clone(), home.clone());
        thread::spawn(move || {
            let outcome = match callers {
                Callers::OnARuntime => runtime().block_on(future),
                Callers::ByHand => by_hand(future),
                Callers::Entered => {
                    let _entered = home.enter();
                    by_hand(future)
                }
            };
            say.send((name, outcome)).unwrap();
        });
    }
    drop(say);
    let (clock, began) = (Clock::system(), Clock::system().now());
    let mut answers = Vec::new();
    while !open.is_empty() {
        match all_say.recv_timeout(LIMIT.saturating_sub(clock.now().since(began))) {
            Ok((name, outcome)) => {
                open.remove(open.iter().position(|known| *known == name).unwrap());
                answers.push((name, outcome));
            }
            Err(e) => panic!("{callers:?}: no end ({e}): {open:?}"),
        }
    }
    answers
}

#[test]
fn calls_end_while_the_clients_runtime_stands_still() {
    for callers in [Callers::OnARuntime, Callers::ByHand, Callers::Entered] {
        let (home, script) = (runtime(), script([granted(TTL)]));
        let held = Held::on(&home, &script);
        let client = held.client.clone();
        // Polled inside of the runtime, the completion goes on with the runtime, and keeps its slot instead
        // of leaving it.
        let keeps = |call: &str| call == "complete" && matches!(callers, Callers::Entered);
        let all = calls(held).into_iter().filter(|(call, _)| !keeps(call)).collect();
        for (call, said) in make(all, callers, home.handle()) {
            let is_fine = match call {
                "release" | "release of several" => said == "Expired",
                "complete" => said == "Lost",
                "lost" | "at_risk" | "lost of several" => said == "Expired",
                "protect" => said.contains("lost"),
                "shutdown" => said.ends_with(" left") && said != "0 left",
                "sleep" => said == "slept",
                // The client is being shut down by another call.
                _ => said.contains("stands still") && said.contains("dedicated") || said.contains("shut"),
            };
            assert!(is_fine, "{callers:?}: {call}: {said}");
        }
        // The runtime goes on, and what was abandoned leaves nothing.
        assert_eq!(home.block_on(client.shutdown(LIMIT)), 0);
        assert_eq!(script.times_of("attempt").len(), script.times_of("release").len(), "{:?}", script.log());
    }
}

#[test]
fn a_wait_ends_by_the_callers_clock() {
    let (home, script) = (runtime(), script([granted(TTL)]));
    let client = opened(&home, &script);
    let wait = ms(400);
    let lock = client.lock("n").ttl(TTL).wait(wait).build().unwrap();
    let (clock, began) = (Clock::system(), Clock::system().now());
    let error = by_hand(lock.acquire()).unwrap_err();
    let took = clock.now().since(began);
    assert!(took >= wait && took < wait + PATIENCE + ms(2000), "{took:?}");
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
    assert!(error.to_string().contains("400 ms"), "{error}");
    home.block_on(client.shutdown(LIMIT));
    assert_eq!(script.times_of("attempt"), [0_u64; 0], "a caller that has given up asks for nothing");
}

#[test]
fn blocking_calls_end_while_the_clients_runtime_stands_still() {
    let (home, script) = (runtime(), script([granted(TTL)]));
    let Held { client, mut guards, .. } = Held::on(&home, &script);
    let lock = client.lock("n").ttl(TTL).wait(ms(200)).build().unwrap();
    let (say, said_all) = mpsc::channel();
    let asked = (client.clone(), guards.pop().unwrap(), guards.pop().unwrap());
    thread::spawn(move || {
        let (client, renewed, released) = asked;
        let say = |call, outcome| say.send((call, outcome)).unwrap();
        say("renew", said(renewed.blocking_renew(TTL)));
        say("acquire", said(lock.blocking_acquire()));
        say("try_acquire", said(lock.blocking_try_acquire()));
        say("inspect", said(lock.blocking_inspect()));
        say("check", said(client.blocking_check()));
        say("lost", format!("{:?}", renewed.blocking_lost(LIMIT)));
        say("release", format!("{:?}", released.blocking_release()));
        say("shutdown", format!("{}", client.blocking_shutdown(ms(100)) > 0));
    });
    for call in ["renew", "acquire", "try_acquire", "inspect", "check", "lost", "release", "shutdown"] {
        let (told, said) = said_all.recv_timeout(LIMIT).unwrap_or_else(|e| panic!("{call}: no end ({e})"));
        let is_fine = match call {
            "lost" => said == "Some(Expired)",
            "release" => said == "Expired",
            "shutdown" => said == "true",
            _ => said.contains("stands still") && said.contains("dedicated"),
        };
        assert!(told == call && is_fine, "{call}: {said}");
    }
    drop(guards);
    assert_eq!(home.block_on(client.shutdown(LIMIT)), 0);
}

#[test]
fn no_client_opens_on_a_stalled_runtime() {
    let (home, script) = (runtime(), script([granted(TTL)]));
    let error = {
        let _entered = home.enter();
        by_hand(open(&script, Options::default())).unwrap_err()
    };
    assert!(error.to_string().contains("stands still"), "{error}");
}

#[test]
fn an_abandoned_revoke_is_not_made_later() {
    let (home, script) = (runtime(), script([granted(TTL)]));
    script.revokes.lock().unwrap().push_back((ms(1), Ok(Revoked::NotHeld)));
    let client = opened(&home, &script);
    let error = by_hand(named(&client, "n").revoke(&OwnerBytes::new(*b"theirs"), When::Now)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error}");
    home.block_on(async { Clock::system().sleep(ms(50)).await });
    assert_eq!(script.times_of("revoke"), [0_u64; 0]);
}

#[test]
fn a_briefly_blocked_runtime_ends_no_call() {
    let (home, script) = (runtime(), script([granted(TTL)]));
    let client = opened(&home, &script);
    let lock = named(&client, "n");
    let caller = thread::spawn(move || by_hand(lock.acquire()));
    home.block_on(async {
        tokio::task::yield_now().await;
        thread::sleep(PATIENCE * 3);
        while !caller.is_finished() {
            Clock::system().sleep(ms(5)).await;
        }
        let guard = caller.join().unwrap().unwrap();
        assert_eq!(guard.release().await, Ending::Released);
    });
}

// Proves: runtime-ended
#[test]
fn calls_after_the_runtimes_end_say_so() {
    for callers in [Callers::OnARuntime, Callers::ByHand, Callers::Entered] {
        let (home, script) = (runtime(), script([granted(TTL)]));
        let held = Held::on(&home, &script);
        let handle = home.handle().clone();
        drop(home);
        for (call, said) in make(calls(held), callers, &handle) {
            let is_fine = match call {
                "release" | "release of several" => said == "Expired",
                "complete" => said == "Lost",
                "lost" | "at_risk" | "lost of several" => said == "RuntimeEnded",
                "renew" | "renew of several" | "protect" => said.contains("lost"),
                "shutdown" => said == "0 left",
                "sleep" => said == "slept",
                _ => said.contains("runtime") && said.contains("has ended") || said.contains("shut"),
            };
            assert!(is_fine, "{callers:?}: {call}: {said}");
        }
    }
}

// Proves: runtime-ended
/// The calls begin before the runtime ends, and are polled again afterwards.
#[test]
fn calls_that_the_end_of_the_runtime_interrupts_end() {
    for callers in [Callers::OnARuntime, Callers::ByHand, Callers::Entered] {
        let (home, script) = (runtime(), script([granted(TTL)]));
        let held = Held::on(&home, &script);
        // From now on the server is silent.
        *script.attempts.lock().unwrap() = [(LIMIT, Ok(Attempt::Busy(Default::default())))].into();
        *script.renewals.lock().unwrap() = [(LIMIT, Ok(Renewal::Lost(LossReason::Gone)))].into();
        *script.releases.lock().unwrap() = [(LIMIT, Ok(Release::NotHeld))].into();
        let handle = home.handle().clone();
        let begun = calls(held).into_iter().filter(|(name, _)| *name != "shutdown");
        let begun: Vec<Call> = home.block_on(async {
            let mut begun: Vec<Call> = begun.collect();
            for (name, future) in &mut begun {
                let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
                assert!(polled.is_pending(), "{name}: {polled:?}");
                tokio::task::yield_now().await;
            }
            begun
        });
        drop(home);
        make(begun, callers, &handle);
    }
}

#[test]
fn a_pause_between_tries_outlives_its_runtime() {
    let (home, script) = (runtime(), script([granted(ms(40)), busy()]));
    *script.renewals.lock().unwrap() = [(ms(1), Ok(Renewal::Lost(LossReason::Taken)))].into();
    let lost = Arc::new(AtomicUsize::new(0));
    let count = lost.clone();
    let options = Options::default().observer(move |event| {
        if let Event::Lost { .. } = event {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let client = home.block_on(open(&script, options)).unwrap();
    let lock = |name: &str| client.lock(name).ttl(ms(40)).build().unwrap();
    let several = MultiLock::new([lock("a"), lock("b")]).unwrap();
    let mut acquiring = pin!(several.acquire());
    // Polled here and not by the runtime, so that it is known where it is when the runtime ends: in its pause.
    while lost.load(Ordering::SeqCst) == 0 {
        assert!(poll_once(acquiring.as_mut()).is_pending());
        home.block_on(async { Clock::system().sleep(ms(1)).await });
    }
    assert!(poll_once(acquiring.as_mut()).is_pending());
    drop(home);
    let error = by_hand(acquiring).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
}

// Proves: runtime-ended-for-many
/// The work of a claim is dropped when the runtime of its client ends, and the next waiter gets its turn.
#[test]
fn a_runtime_that_ends_passes_any_number_of_waiters() {
    const WAITERS: usize = 20_000;
    let (home, elsewhere, script) = (runtime(), runtime(), script([granted(TTL * 100)]));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let options = Options::default().observer(move |event| {
        if let Event::Asked { .. } = event {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let client = home.block_on(open(&script, options)).unwrap();
    let lock = client.lock("n").ttl(TTL * 100).build().unwrap();
    let _guard = home.block_on(lock.acquire()).unwrap();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let lock = lock.clone();
            elsewhere.spawn(async move { lock.acquire().await.map(drop) })
        })
        .collect();
    elsewhere.block_on(tokio::task::yield_now());
    while asked.load(Ordering::SeqCst) <= WAITERS {
        elsewhere.block_on(tokio::task::yield_now());
        home.block_on(tokio::task::yield_now());
    }
    // Each waiter would take more than the whole stack allows.
    let ending = thread::Builder::new().stack_size(128 * 1024).spawn(move || drop(home)).unwrap();
    ending.join().unwrap();
    for waiter in waiters {
        let error: Error = elsewhere.block_on(waiter).unwrap().unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    }
}

// Proves: check-server
/// The claim leaves on the client's runtime while its caller, on another thread, makes the error.
#[test]
fn a_wait_that_ends_tells_what_was_seen() {
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = opened(&home, &script([busy()]));
    thread::scope(|threads| {
        for n in 0..100 {
            let (home, lock) = (&home, client.lock(format!("n{n}")).ttl(TTL).wait(ms(300)).build().unwrap());
            threads.spawn(move || {
                for _ in 0..5 {
                    let error = home.block_on(lock.acquire()).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
                }
            });
        }
    });
}
