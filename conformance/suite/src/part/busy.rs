//! A process that forks while its other threads use the client: whatever is locked at that moment stays locked in the
//! child. The child makes every call, and drops everything, and must wait for none of it.

use std::pin::Pin;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use lock_core::{Client, ErrorKind, Guard, Lock, MultiLock, Options, OwnerBytes, Reentrant, Result, When};
use tokio::runtime::{Builder, Runtime};

use super::{BUSY_FORKS, Order, forked};
use crate::harness::Harness;
use crate::timing::Answered;

/// The longest time that a child may take for all its calls.
const LIMIT: Duration = Duration::from_secs(10);

/// Everything that the process has, and that a child has copies of.
struct All {
    client: Client,
    guard: Guard,
    lock: Lock,
    owner: Reentrant,
    reentrant: Lock,
    entered: Guard,
    /// Calls that were begun and not answered.
    pending: Vec<Pin<Box<dyn Future<Output = Result<Guard>> + Send>>>,
}

pub(super) fn forks(order: &Order, harness: &impl Harness) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let all = runtime.block_on(prepare(order, harness));
    let is_over = Arc::new(AtomicBool::new(false));
    let users = users(order, &all, &runtime, &is_over);
    let mut all = all;
    for nth in 1..=BUSY_FORKS {
        match fork().expect("there is room for a process") {
            Fork::Child => child(order, harness, all, nth),
            Fork::Parent(child) => waitpid(child).expect("a child"),
        };
    }
    is_over.store(true, Ordering::Relaxed);
    users.into_iter().for_each(|user| user.join().expect("no panic"));
    all.pending.clear();
    runtime.block_on(async {
        all.entered.release().await;
        forked::keep(order, all.guard).await;
    });
}

async fn prepare(order: &Order, harness: &impl Harness) -> All {
    let (client, guard) = order.hold(harness).await;
    let lock = client.lock(order.name.as_str()).ttl(order.ttl).build().expect("fine terms");
    let owner = Reentrant::new();
    let reentrant = client.lock(format!("{} again", order.name)).ttl(order.ttl * 20).reentrant(&owner);
    let reentrant = reentrant.build().expect("fine terms");
    let entered = reentrant.acquire().answered().await;
    let mut pending: Vec<Pin<Box<dyn Future<Output = Result<Guard>> + Send>>> = Vec::new();
    for wait in [None, Some(order.ttl * 100)] {
        let builder = client.lock(order.name.as_str()).ttl(order.ttl);
        let builder = if let Some(wait) = wait { builder.wait(wait) } else { builder };
        let waits = builder.build().expect("fine terms");
        pending.push(Box::pin(async move { waits.acquire().await }));
    }
    let waits =
        client.lock(order.name.as_str()).ttl(order.ttl).reentrant(&owner).build().expect("fine terms");
    pending.push(Box::pin(async move { waits.acquire().await }));
    for call in &mut pending {
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it is held");
    }
    All { client, guard, lock, owner, reentrant, entered, pending }
}

/// Asks for the parent's lock with a client of the child's own.
async fn ask(order: &Order, harness: &impl Harness) -> Result<Option<Guard>> {
    let client = harness.open(Options::default()).await?;
    client.lock(order.name.as_str()).ttl(order.ttl).build()?.try_acquire().await
}

/// Starts threads that use the client all the time.
fn users(
    order: &Order,
    all: &All,
    runtime: &Runtime,
    is_over: &Arc<AtomicBool>,
) -> Vec<thread::JoinHandle<()>> {
    let (client, owner, reentrant) = (all.client.clone(), all.owner.clone(), all.reentrant.clone());
    let other = client.lock(format!("{} other", order.name)).ttl(order.ttl * 20).build().expect("fine terms");
    let entered = reentrant.blocking_acquire().expect("its owner holds it");
    let (asks, clock, shows) = (client.clone(), client.clock().clone(), client);
    let home = runtime.handle().clone();
    let work: [Box<dyn FnMut() + Send>; 6] = [
        Box::new(move || drop((entered.is_held(), entered.check()))),
        Box::new(move || drop(other.blocking_acquire())),
        Box::new(move || drop(reentrant.blocking_acquire())),
        Box::new(move || drop(format!("{owner:?} {shows:?}"))),
        Box::new(move || {
            let mut sleep = Box::pin(clock.sleep(Duration::from_secs(60)));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }),
        Box::new(move || drop(home.block_on(asks.lock("another").build().expect("fine terms").inspect()))),
    ];
    let run = |mut work: Box<dyn FnMut() + Send>| {
        let is_over = is_over.clone();
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                work();
            }
        })
    };
    work.into_iter().map(run).collect()
}

/// The calls of a child.
struct Calls {
    own: Runtime,
    now: Arc<Mutex<&'static str>>,
}

impl Calls {
    /// Starts a thread that ends the child if it waits for something.
    fn begin() -> Calls {
        let now = Arc::new(Mutex::new("its first call"));
        let waits_for = now.clone();
        thread::spawn(move || {
            thread::sleep(LIMIT);
            println!("child waits in {}", waits_for.lock().unwrap_or_else(PoisonError::into_inner));
            exit(1)
        });
        Calls { own: Builder::new_current_thread().enable_all().build().expect("a runtime"), now }
    }

    fn begins(&self, call: &'static str) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    /// Makes a call, which must fail because the client is another process's.
    fn refused<T>(&self, call: &'static str, future: impl Future<Output = Result<T>>) {
        self.begins(call);
        self.says_no(call, self.own.block_on(future));
    }

    fn says_no<T>(&self, call: &'static str, outcome: Result<T>) {
        let error = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        if !error.contains("fork") && !error.contains("lost") {
            println!("child, {call}: {error:?}");
            exit(1);
        }
    }

    fn done<T>(&self, call: &'static str, work: impl FnOnce() -> T) -> T {
        self.begins(call);
        work()
    }
}

fn child(order: &Order, harness: &impl Harness, all: All, nth: usize) -> ! {
    let All { client, guard, lock, owner, reentrant, entered, pending } = all;
    let calls = Calls::begin();
    let held = calls.done("is_held", || guard.is_held() || !guard.valid_for().is_zero() || entered.is_held());
    assert!(!held, "a fork holds nothing");
    calls.says_no("check of a guard", calls.done("check of a guard", || guard.check()));
    calls.done("Debug", || format!("{client:?} {guard:?} {lock:?} {owner:?} {:?}", client.info()));
    let built = calls.done("build", || client.lock(order.name.as_str()).ttl(order.ttl).build());
    let built = built.expect("fine terms");
    calls.refused("protect", guard.protect(async {}));
    calls.refused("renew", guard.renew(order.ttl));
    calls.refused("acquire", built.acquire());
    calls.refused("try_acquire", lock.try_acquire());
    calls.refused("reentrant acquire", reentrant.acquire());
    calls.refused("reentrant try_acquire", reentrant.try_acquire());
    calls.refused("inspect", lock.inspect());
    calls.refused("revoke", lock.revoke(&OwnerBytes::new(*b"theirs"), When::Now));
    calls.refused("check", client.check());
    calls.refused("init", client.init());
    calls.refused("list", client.list(""));
    let several = calls.done("several", || MultiLock::new([lock.clone()])).expect("one lock");
    calls.refused("acquire of several", several.acquire());
    calls.refused("try_acquire of several", several.try_acquire());
    calls.done("lost", || calls.own.block_on(async { (guard.lost().await, guard.at_risk(order.ttl).await) }));
    calls.done("shutdown", || calls.own.block_on(client.shutdown(LIMIT)));
    calls.says_no("blocking_acquire", calls.done("blocking_acquire", || lock.blocking_acquire()));
    calls.says_no("blocking_inspect", calls.done("blocking_inspect", || lock.blocking_inspect()));
    for call in pending {
        match nth % 2 {
            0 => calls.refused("a pending acquire", call),
            _ => calls.done("the drop of a pending acquire", || drop(call)),
        }
    }
    calls.done("the drop of a reentrant guard", || drop(entered));
    calls.done("the drop of its owner", || drop((owner, reentrant)));
    match nth % 2 {
        0 => _ = calls.done("release", || calls.own.block_on(guard.release())),
        _ => calls.done("the drop of a guard", || drop(guard)),
    }
    calls.done("the drop of a client", || drop((several, lock, built, client)));
    if nth.is_multiple_of(10) {
        let asked = calls.done("a client of its own", || calls.own.block_on(ask(order, harness)));
        let is_as_promised = match &asked {
            Ok(guard) => guard.is_none() && harness.opens_in_forks(),
            Err(error) => !harness.opens_in_forks() && error.kind() == ErrorKind::Unsupported,
        };
        if !is_as_promised {
            println!("child {nth}, with a client of its own: {:?}", asked.map(|guard| guard.is_some()));
            exit(1)
        }
    }
    println!("child {nth} ends");
    exit(0)
}
