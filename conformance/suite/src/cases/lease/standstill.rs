//! The client's executor or machine stands still, or its clock shows another time than others'.

use std::pin::pin;
use std::time::{Duration, Instant};

use lock_core::{Client, ErrorKind, Event, LossReason, Options};
use tokio::task::JoinSet;

use crate::bounds;
use crate::runtime::on_an_executor;
use crate::setting::{Contend, Setting, ms};
use crate::suspendable::Suspendable;
use crate::timing::{Answered, released, still_held, within};

pub(super) async fn a_stalled_executor_is_told_at_its_next_step(s: Setting) {
    let stalled = on_an_executor(async move || {
        let guard = s.hold(&s.name()).await;
        let mut polls = 0;
        let work = std::future::poll_fn(|context| {
            polls += 1;
            // The whole executor stands still for longer than the lease.
            std::thread::sleep(s.ttl() * 5 / 4);
            context.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        });
        let lost = guard.protect(work).await.expect_err("the lease is over");
        (lost.kind(), guard.is_held(), polls)
    });
    let outcome = tokio::time::timeout(Duration::from_secs(20), stalled).await.expect("it comes back");
    assert_eq!(outcome, (ErrorKind::Lost, false, 1), "the work is not polled again");
}

/// The loss is told to an observer of the client. The work itself has ended before anything else could run.
pub(super) async fn a_loss_by_a_stalled_executor_comes_once(s: Setting) {
    let (telling, told) = std::sync::mpsc::channel();
    let options = Options::default().observer(move |event| {
        if let Event::Lost { cause, .. } = event {
            telling.send(*cause).expect("the case waits");
        }
    });
    on_an_executor(async move || {
        let client = s.client_with(options).await;
        let lock = s.lock(&client, &s.name()).built();
        let outcome = lock.run(async |_| std::thread::sleep(s.ttl() * 5 / 4)).await;
        assert_eq!(outcome.expect_err("the lease is over").kind(), ErrorKind::Lost);
        assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0, "it was not given back");
    })
    .await;
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [LossReason::Expired]);
}

pub(super) async fn a_dedicated_client_outlives_a_stalled_executor(s: Setting) {
    on_an_executor(async move || {
        let client = s.client_with(Options::default().dedicated()).await;
        let guard = s.hold_by(&client, &s.name()).await;
        std::thread::sleep(s.ttl() * 3 / 2);
        released(guard).await;
    })
    .await;
}

/// A suspended machine: its timers stand still, the server's clock doesn't.
pub(super) async fn a_suspend_is_noticed(s: Setting) {
    let name = s.name();
    let machine = Suspendable::default();
    let client = s.client_with(Options::default().clock(machine.clock())).await;
    let ttl = s.long();
    let guard = client.lock(name.as_str()).ttl(ttl).fixed_lease().held().await;
    let mut lost = pin!(guard.lost());
    // Waits until the client has nothing else to wake up for.
    assert!(tokio::time::timeout(ms(400), &mut lost).await.is_err());
    machine.sleeps(ttl);
    assert!(!guard.is_held(), "it is lost at the next call");
    // The timers would tell it at the end of the lease.
    let limit = bounds::before_the_end(ttl);
    assert_eq!(within("it is told", limit, lost).await, LossReason::Expired);
}

/// Nothing that a client's clock shows may reach the server, only durations that are measured with it.
pub(super) async fn clients_whose_clocks_are_hours_apart_agree(s: Setting) {
    let mut clients = Vec::new();
    for hours in [0, 1, 1000] {
        let machine = Suspendable::default();
        machine.sleeps(Duration::from_secs(hours * 3600));
        clients.push(s.client_with(Options::default().clock(machine.clock())).await);
    }
    let mut pairs = JoinSet::new();
    for (holder, waiter) in [(0, 1), (1, 0), (2, 0), (0, 2), (1, 2), (2, 1)] {
        pairs.spawn(agree(s.clone(), clients[holder].clone(), clients[waiter].clone()));
    }
    pairs.join_all().await;
}

/// Checks that the waiter gets the lock when the holder's lease has ended, and not before.
async fn agree(s: Setting, holder: Client, waiter: Client) {
    let name = s.name();
    let asked = Instant::now();
    let guard = s.lock(&holder, &name).fixed_lease().held().await;
    let waiting = s.lock(&waiter, &name).built();
    if waiting.try_acquire().answered().await.is_some() {
        still_held(&guard);
        panic!("two at a time");
    }
    let next = within("the lease ends", s.ttl() * 3 + ms(1000), waiting.acquire()).answered().await;
    assert!(!guard.is_held() && next.token() > guard.token());
    assert!(asked.elapsed() > s.ttl() / 2, "it ended after {:?} of {:?}", asked.elapsed(), s.ttl());
    released(next).await;
}
