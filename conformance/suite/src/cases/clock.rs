//! The server's clock is set while clients hold locks, ask for them and wait for them.
//!
//! `docs/semantics.md` says under *A clock that is set* what is lost then and what never is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::driver::{Fencing, Lease};
use lock_core::{Client, Clock, Effect, Ending, ErrorKind, Fence, Guard, LossReason, Name, Options};

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{IdleConnection, OwnServer, ServerClocks, Step};
use crate::proxy::{Direction, Proxy};
use crate::setting::{Contend, Net, Setting, granted_within, holder_of, ms, opened, stays_unheld};
use crate::suspendable::Suspendable;
use crate::timing::{Answered, assert_in_time, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(
        set_forward_it_ends_leases_and_holders_are_told,
        "clock-forward, server-clock-set",
        [B11, B13, B32]
    ),
    case!(set_forward_it_frees_the_lock_for_a_waiter, "clock-forward-waiter, server-clock-set", [B4, B32]),
    case!(set_back_it_costs_no_live_holder_the_lock, "validity, clock-back, server-clock-set", [B12, B32]),
    case!(a_clock_set_back_keeps_a_dead_holders_lock, "clock-back-dead-holder, server-clock-set", [B32]; if lock_has_a_lease),
    case!(set_right_again_it_keeps_no_client_waiting, "clock-set-right, server-clock-set", [B4, B32]; if lock_has_a_lease),
    case!(tokens_rise_however_it_is_set, "clock-tokens, server-clock-set", [B13]),
    case!(a_clock_set_during_an_attempt_costs_nothing, "clock-attempt, server-clock-set", [B2]),
    case!(a_clock_set_back_admits_late_attempts_one_ttl, "clock-late-attempt, server-clock-set", [B2]),
    case!(a_slower_clock_admits_no_late_attempt_when_idle, "margin-of-attempts, request-late", [B2]),
];

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Two clients may hold the lock now, and only the token protects the resource, until the first one's next renewal and
/// no longer.
async fn set_forward_it_ends_leases_and_holders_are_told(s: Setting, clocks: Arc<dyn ServerClocks>) {
    let (name, resource) = (s.name(), Fence::new());
    let mut server = clocks.start().await;
    let first = s.hold_on(&*server, &name).await;
    resource.accept(first.token()).expect("it holds");
    server.step_clock(Step::Forward(HOUR));
    let second = s.hold_on(&*server, &name).await;
    resource.accept(second.token()).expect("it holds");
    assert!(resource.accept(first.token()).is_err(), "the token is between the two");
    let cause = within("the first one's next renewal", bounds::next_renewal(s.ttl()), first.lost()).await;
    assert!(matches!(cause, LossReason::Gone | LossReason::Taken | LossReason::Session), "{cause}");
    assert!(first.renew(s.ttl()).await.is_err());
    assert_eq!(first.release().await, Ending::Expired);
    stays_held(&s, &*server, &second).await;
    released(second).await;
    assert!(s.is_free_for(&opened(&*server).await, &name).await);
}

/// Checks for two ttls that the guard is held, for its holder and for every other client.
async fn stays_held(s: &Setting, server: &dyn OwnServer, guard: &Guard) {
    let lock = s.lock_on(server, guard.name()).await.built();
    let end = Instant::now() + s.ttl() * 2;
    while Instant::now() < end {
        still_held(guard);
        assert!(guard.valid_for() <= s.ttl(), "{:?}: more than it asked for", guard.valid_for());
        if lock.try_acquire().answered().await.is_some() {
            still_held(guard);
            panic!("two at a time");
        }
        tokio::time::sleep(s.ttl() / 8).await;
    }
}

async fn set_forward_it_frees_the_lock_for_a_waiter(s: Setting, clocks: Arc<dyn ServerClocks>) {
    let (name, mut server) = (s.name(), clocks.start().await);
    let first = s.hold_on(&*server, &name).await;
    let waiter = s.lock_on(&*server, &name).await.waits();
    tokio::time::sleep(s.ttl() / 2).await;
    server.step_clock(Step::Forward(HOUR));
    // By then the lease that it saw would have ended.
    let second = granted_within("the waiter has it", s.ttl() / 2 + ms(100), waiter).await;
    assert!(second.token() > first.token());
    within("the first is told", bounds::next_renewal(s.ttl()), first.lost()).await;
    released(second).await;
}

/// When the clock is set right again later, it may end the lease, which would have ended without the change too. No
/// client may count on the extra hour.
async fn set_back_it_costs_no_live_holder_the_lock(s: Setting, clocks: Arc<dyn ServerClocks>) {
    let (name, mut server) = (s.name(), clocks.start().await);
    let guard = s.hold_on(&*server, &name).await;
    server.step_clock(Step::Back(HOUR));
    stays_held(&s, &*server, &guard).await;
    server.step_clock(Step::Forward(HOUR));
    let set_right = Instant::now();
    match tokio::time::timeout(s.ttl(), guard.lost()).await {
        // The server saw an hour left and prolonged nothing. The lease is over, and its holder is told.
        Ok(_) => {
            let limit = bounds::next_renewal(s.ttl());
            assert_in_time!(set_right.elapsed() < limit, "told after {:?}", set_right.elapsed());
        }
        Err(_) => assert_eq!(guard.release().await, Ending::Released),
    }
    let next = opened(&*server).await;
    until("it is free", s.ttl(), || s.is_free_for(&next, &name)).await;
}

/// Otherwise a client that goes away takes its locks with it, and a client that stays keeps them.
fn lock_has_a_lease(s: &Setting) -> bool {
    s.info.lease == Lease::Lock
}

/// Leaves a lock whose holder has died right after the grant: no client renews or releases it. Its lease began after
/// the returned moment.
async fn abandon(s: &Setting, server: &dyn OwnServer, name: &Name) -> Instant {
    let client = opened(server).await;
    let asked = Instant::now();
    drop(s.holding_claim(&client, name, s.ttl()).await);
    asked
}

/// If the clock was set later than that, it had nothing to end or to keep.
fn was_set_during_the_lease(s: &Setting, began: Instant) {
    assert_in_time!(began.elapsed() < s.ttl(), "the clock was set {:?} after the grant", began.elapsed());
}

async fn a_clock_set_back_keeps_a_dead_holders_lock(s: Setting, clocks: Arc<dyn ServerClocks>) {
    let (name, back) = (s.name(), Duration::from_secs(2));
    let mut server = clocks.start().await;
    let lock = s.lock_on(&*server, &name).await;
    let began = abandon(&s, &*server, &name).await;
    let asked = Instant::now();
    let waiter = lock.waits();
    tokio::time::sleep(s.ttl() / 4).await;
    server.step_clock(Step::Back(back));
    was_set_during_the_lease(&s, began);
    let guard = granted_within("the lease ends", back + s.ttl() + ms(400), waiter).await;
    assert!(asked.elapsed() >= back, "after {:?}: its clock was not set back", asked.elapsed());
    released(guard).await;
}

async fn set_right_again_it_keeps_no_client_waiting(s: Setting, clocks: Arc<dyn ServerClocks>) {
    let (name, mut server) = (s.name(), clocks.start().await);
    let lock = s.lock_on(&*server, &name).await;
    let began = abandon(&s, &*server, &name).await;
    // No write may be under way: a mongod that has a write to acknowledge when its clock is set back may acknowledge
    // none from then on, to any client.
    server.step_clock(Step::Back(HOUR));
    was_set_during_the_lease(&s, began);
    let waiter = lock.waits();
    // The waiter has looked by now, and was told of an hour.
    tokio::time::sleep(s.ttl() * 2).await;
    assert!(!waiter.is_finished());
    server.step_clock(Step::Forward(HOUR));
    released(granted_within("its next look", Duration::from_secs(6), waiter).await).await;
}

/// The clock is set back as far as `Info` says, from a time that it has shown.
async fn tokens_rise_however_it_is_set(s: Setting, clocks: Arc<dyn ServerClocks>) {
    let most = match &s.info.fencing {
        Fencing::WhileDataIsKept { clock_step, .. }
        | Fencing::WhileAMajorityKeepsItsData { clock_step, .. } => *clock_step,
        _ => DAY,
    };
    let (name, mut server) = (s.name(), clocks.start().await);
    let lock = s.lock_on(&*server, &name).await.built();
    let mut last = None;
    for steps in [
        &[Step::Back(most)][..],
        &[Step::Forward(most)],
        // Ahead of the token for a while, but not so far that the token may be forgotten; then behind it.
        &[Step::Forward(most * 59 / 60), Step::Back(most)],
        &[Step::Forward(most * 30)],
        &[],
    ] {
        for _ in 0..3 {
            let guard = lock.try_acquire().answered().await.expect("no other client has it");
            assert!(last < Some(guard.token()), "{last:?}, then {:?}, before {steps:?}", guard.token());
            last = Some(guard.token());
            released(guard).await;
        }
        for step in steps {
            server.step_clock(*step);
            // A look, so that the server forgets whatever is over by this time.
            assert!(holder_of(&lock).await.is_none());
        }
    }
}

/// Opens a client with this clock behind a proxy, with its connection made and the server's time known.
async fn through(s: &Setting, server: &dyn OwnServer, clock: Clock, patience: Duration) -> (Proxy, Client) {
    let net = server.through_proxy().expect("its harness can use a proxy");
    let proxy = net.proxy().await;
    let client = net.client(&proxy, Options::default().patience(patience).clock(clock)).await;
    released(s.hold_by(&client, &s.name()).await).await;
    (proxy, client)
}

async fn a_clock_set_during_an_attempt_costs_nothing(s: Setting, clocks: Arc<dyn ServerClocks>, _: Net) {
    let mut server = clocks.start().await;
    let (proxy, client) = through(&s, &*server, Clock::system(), Duration::from_secs(3)).await;
    for step in [Step::Forward(HOUR), Step::Back(HOUR)] {
        let name = s.name();
        let lock = s.lock(&client, &name).built();
        let held = proxy.held(Direction::ToServer);
        proxy.hold(Direction::ToServer);
        let attempt = tokio::spawn(async move { lock.try_acquire().await });
        until("it is on its way", ms(1000), || async { proxy.held(Direction::ToServer) > held }).await;
        server.step_clock(step);
        proxy.deliver(Direction::ToServer);
        let guard = granted_within("an answer", ms(1000), attempt).await;
        let guard = guard.unwrap_or_else(|| panic!("{step:?}: the lock is free, but was not granted"));
        still_held(&guard);
        assert!(guard.valid_for() <= s.ttl());
        released(guard).await;
        assert!(s.is_free_for(&opened(&*server).await, &name).await);
    }
}

/// An attempt's deadline is in the server's time. If that is set back, the deadline comes later.
async fn a_clock_set_back_admits_late_attempts_one_ttl(s: Setting, clocks: Arc<dyn ServerClocks>, _: Net) {
    let (name, patience) = (s.name(), s.ttl() / 2);
    let mut server = clocks.start().await;
    let (proxy, client) = through(&s, &*server, Clock::system(), patience).await;
    proxy.hold_open_ones(Direction::ToServer);
    let lock = s.lock(&client, &name).built();
    let error = lock.try_acquire().await.map(drop).expect_err("no answer came");
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
    // Its second release, after the patience, has been sent too.
    tokio::time::sleep(patience).await;
    server.step_clock(Step::Back(HOUR));
    proxy.deliver_late(Direction::ToServer).await;
    // If the attempt takes the lock, this is enough time for that to be seen. Otherwise it would be no late attempt.
    tokio::time::sleep(ms(50)).await;
    let looking = opened(&*server).await;
    until("its ttl ends it", s.ttl() + ms(300), || s.is_free_for(&looking, &name)).await;
    let guard = s.hold_on(&*server, &name).await;
    stays_held(&s, &*server, &guard).await;
    released(guard).await;
}

/// An hour passes on the client's clock, and 1 % less on the server's clock, whose time the client has learned before.
/// Even so, the deadline of the next attempt is no later than the end of its patience.
async fn a_slower_clock_admits_no_late_attempt_when_idle(
    s: Setting,
    clocks: Arc<dyn ServerClocks>,
    _: Net,
    _: IdleConnection,
) {
    let (name, patience, machine) = (s.name(), s.ttl() / 2, Suspendable::default());
    let mut server = clocks.start().await;
    let looking = opened(&*server).await;
    // On a name that was used before, the first request may be the one that grants the lock.
    assert!(s.is_free_for(&looking, &name).await);
    let (proxy, client) = through(&s, &*server, machine.clock(), patience).await;
    proxy.hold_open_ones(Direction::ToServer);
    machine.sleeps(HOUR);
    server.step_clock(Step::Forward(HOUR - HOUR / 100));
    let ttl = s.long().min(client.info().max_ttl);
    let lock = client.lock(name.as_str()).ttl(ttl).built();
    match lock.try_acquire().await {
        Err(error) => assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}"),
        // It was sent once more on another connection, whose server has told the time.
        Ok(guard) => drop(guard.expect("the name is free")),
    }
    // Its second release, after the patience, has been sent too.
    let left = client.shutdown(patience * 2 + ms(300)).await;
    assert_in_time!(left == 0, "what it may have left was not released within {:?}", patience * 2);
    let looking = s.lock(&looking, &name).built();
    assert!(holder_of(&looking).await.is_none());
    proxy.deliver_late(Direction::ToServer).await;
    stays_unheld(&looking, s.ttl(), "after its patience it took the lock").await;
}
