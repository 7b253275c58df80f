//! A process that forks while it holds, without an exec: the child has a copy of the guard, of everything else that the
//! client has, and of all connections. Whatever is locked at that moment stays locked in the child. The child makes
//! every call, and drops everything, and must wait for none of it.

use std::pin::Pin;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fork::{Fork, fork, waitpid};
use lock_core::{
    Client, Effect, Ending, ErrorKind, Guard, Lock, LossReason, MultiLock, Options, OwnerBytes, Reentrant,
    Result, When,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use super::{Order, Part};
use crate::harness::Harness;
use crate::setting::Contend;
use crate::timing::Answered;

/// The longest time that a child may take for all its calls.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest time for one call, where no other thread keeps the machine busy.
const CALL: Duration = Duration::from_secs(1);
/// The kind of a call's error about a lock of the parent's.
const LOST: ErrorKind = ErrorKind::Lost;
/// The kind of a call's error about the parent's client.
const REFUSED: ErrorKind = ErrorKind::Unavailable { effect: Effect::NotApplied };

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

/// Forks with a runtime whose threads stay with the parent, again and again. Some processes have other threads that use
/// the client meanwhile.
pub(super) fn forks(order: &Order, harness: &impl Harness) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut all = runtime.block_on(prepare(order, harness));
    let is_over = Arc::new(AtomicBool::new(false));
    let users = match order.part {
        Part::ForksBusy => users(order, &all, &runtime, &is_over),
        _ => Vec::new(),
    };
    for nth in 0..=order.part.last_child() {
        match fork().expect("there is room for a process") {
            Fork::Child if nth == 0 => drops_it(all),
            Fork::Child => child(order, harness, all, nth),
            Fork::Parent(child) => waitpid(child).expect("a child"),
        };
    }
    is_over.store(true, Ordering::Relaxed);
    users.into_iter().for_each(|user| user.join().expect("no panic"));
    all.pending.clear();
    runtime.block_on(async {
        all.entered.release().await;
        keep(order, all.guard).await;
    });
}

/// Forks inside a runtime, which continues in the child, too, if the child lets it.
pub(super) fn forks_inside(order: &Order, harness: &impl Harness) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, guard) = order.hold(harness).await;
        match fork().expect("there is room for a process") {
            Fork::Child => {
                drop((guard, client));
                // Time for anything that the drops may have started.
                sleep(order.ttl / 10).await;
                drops_it(())
            }
            Fork::Parent(child) => waitpid(child).expect("a child"),
        };
        keep(order, guard).await;
        drop(client);
    });
}

/// The first child: it drops what it has, and does nothing else.
fn drops_it<T>(all: T) -> ! {
    drop(all);
    println!("child 0 ends");
    exit(0)
}

/// Holds for twice as long as the lease lasts.
async fn keep(order: &Order, guard: Guard) {
    for _ in 0..20 {
        sleep(order.ttl / 10).await;
        guard.check().expect("the child has taken it from its parent");
    }
    println!("parent: {:?}", guard.release().await);
}

async fn prepare(order: &Order, harness: &impl Harness) -> All {
    let (client, guard) = order.hold(harness).await;
    let lock = client.lock(order.name.as_str()).ttl(order.ttl).built();
    let owner = Reentrant::new();
    let reentrant =
        client.lock(format!("{} again", order.name)).ttl(order.ttl * 20).reentrant(&owner).built();
    let entered = reentrant.acquire().answered().await;
    let again = || client.lock(order.name.as_str()).ttl(order.ttl);
    let mut all = All { client: client.clone(), guard, lock, owner, reentrant, entered, pending: Vec::new() };
    for waits in [again(), again().wait(order.ttl * 100), again().reentrant(&all.owner)] {
        let waits = waits.built();
        let mut call = Box::pin(async move { waits.acquire().await });
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it is held");
        all.pending.push(call);
    }
    all
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
    let other = client.lock(format!("{} other", order.name)).ttl(order.ttl * 20).built();
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
        Box::new(move || drop(home.block_on(asks.lock("another").built().inspect()))),
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
    now: Arc<Mutex<(&'static str, Instant)>>,
}

impl Calls {
    /// Starts a thread that ends the child if it waits for something: if a call takes longer than this.
    fn begin(limit: Duration) -> Calls {
        let began = Instant::now();
        let now = Arc::new(Mutex::new(("its first call", began)));
        let waits_for = now.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(CALL / 20);
                let (call, since) = *waits_for.lock().unwrap_or_else(PoisonError::into_inner);
                if since.elapsed() > limit || began.elapsed() > LIMIT {
                    println!("child waits in {call}");
                    exit(1)
                }
            }
        });
        Calls { own: Builder::new_current_thread().enable_all().build().expect("a runtime"), now }
    }

    /// Makes a call, which must fail in this way.
    fn refused<T>(&self, call: &'static str, how: ErrorKind, future: impl Future<Output = Result<T>>) {
        self.fails(call, how, || self.own.block_on(future));
    }

    fn fails<T>(&self, call: &'static str, how: ErrorKind, work: impl FnOnce() -> Result<T>) {
        let said = self.done(call, work).err().map(|error| (error.kind(), error.to_string()));
        let is_right = said
            .as_ref()
            .is_some_and(|(kind, said)| *kind == how && (said.contains("fork") || said.contains("lost")));
        if !is_right {
            println!("child, {call}: {said:?}");
            exit(1);
        }
    }

    fn done<T>(&self, call: &'static str, work: impl FnOnce() -> T) -> T {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = (call, Instant::now());
        work()
    }
}

fn child(order: &Order, harness: &impl Harness, all: All, nth: usize) -> ! {
    let All { client, guard, lock, owner, reentrant, entered, pending } = all;
    let calls = Calls::begin(if order.part == Part::ForksBusy { LIMIT } else { CALL });
    let held = calls.done("is_held", || guard.is_held() || !guard.valid_for().is_zero() || entered.is_held());
    assert!(!held, "a fork holds nothing");
    calls.fails("check of a guard", LOST, || guard.check());
    calls.done("Debug", || format!("{client:?} {guard:?} {lock:?} {owner:?} {:?}", client.info()));
    let built = calls.done("build", || client.lock(order.name.as_str()).ttl(order.ttl).built());
    calls.refused("protect", LOST, guard.protect(async {}));
    calls.refused("renew", LOST, guard.renew(order.ttl));
    calls.refused("acquire", REFUSED, built.acquire());
    calls.refused("try_acquire", REFUSED, lock.try_acquire());
    calls.refused("reentrant acquire", REFUSED, reentrant.acquire());
    calls.refused("reentrant try_acquire", REFUSED, reentrant.try_acquire());
    calls.refused("inspect", REFUSED, lock.inspect());
    calls.refused("revoke", REFUSED, lock.revoke(&OwnerBytes::new(*b"theirs"), When::Now));
    calls.refused("check", REFUSED, client.check());
    calls.refused("init", REFUSED, client.init());
    calls.refused("list", REFUSED, client.list(""));
    let several = calls.done("several", || MultiLock::new([lock.clone()])).expect("one lock");
    calls.refused("acquire of several", REFUSED, several.acquire());
    calls.refused("try_acquire of several", REFUSED, several.try_acquire());
    let told = async { (guard.lost().await, guard.at_risk(order.ttl).await) };
    let told = calls.done("lost", || calls.own.block_on(told));
    assert_eq!(told, (LossReason::RuntimeEnded, LossReason::RuntimeEnded));
    let left = calls.done("shutdown", || calls.own.block_on(client.shutdown(LIMIT)));
    assert!(left >= 2, "{left}: what it holds is its parent's");
    calls.fails("blocking_acquire", REFUSED, || lock.blocking_acquire());
    calls.fails("blocking_inspect", REFUSED, || lock.blocking_inspect());
    for call in pending {
        match nth % 2 {
            0 => calls.refused("a pending acquire", REFUSED, call),
            _ => calls.done("the drop of a pending acquire", || drop(call)),
        }
    }
    calls.done("the drop of a reentrant guard", || drop(entered));
    calls.done("the drop of its owner", || drop((owner, reentrant)));
    match nth % 2 {
        0 => {
            let ending = calls.done("release", || calls.own.block_on(guard.release()));
            assert_eq!(ending, Ending::Expired);
        }
        _ => calls.done("the drop of a guard", || drop(guard)),
    }
    calls.done("the drop of a client", || drop((several, lock, built, client)));
    if nth.is_multiple_of(10) {
        let asked = calls.done("a client of its own", || calls.own.block_on(ask(order, harness)));
        let is_as_promised = match &asked {
            Ok(guard) => guard.is_none() && harness.facts().opens_in_forks,
            Err(error) => !harness.facts().opens_in_forks && error.kind() == ErrorKind::Unsupported,
        };
        if !is_as_promised {
            println!("child {nth}, with a client of its own: {:?}", asked.map(|guard| guard.is_some()));
            exit(1)
        }
    }
    println!("child {nth} ends");
    exit(0)
}
