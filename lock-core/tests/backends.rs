//! The tools of the core for backends, one by one, as far as neither the suite nor the tests of acquisitions
//! cover them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, unreachable_pub, reason = "this test needs little of it")]
mod scripted;

use std::time::Duration;

use lock_core::driver::{
    Busy, Context, Fair, Fencing, Grant, Info, Inspection, Lease, Mode, Queueing, Request, Revocation, Wakes,
    When,
};
use lock_core::toolkit::{Call, Hub, Prefix, RESERVED_SUFFIX};
use lock_core::{Clock, Effect, Entry, ErrorKind, FencingToken, Label, Name, Owner, OwnerBytes, Random};
use scripted::{Script, client, granted, held, ms, pass, released};

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_time_from_its_beginning() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let client = client(&script).await;
    pass(ms(10)).await;
    let call = Call::begin(client.clock(), ms(800));
    assert_eq!((call.began().since_origin(), call.ends().since_origin()), (ms(10), ms(810)));
    assert_eq!(call.clock().now(), call.began());
    pass(ms(300)).await;
    assert_eq!((call.left(), call.is_over()), (ms(500), false));
    assert_eq!(call.within(async { 7 }).await, Some(7));
    let earlier = call.with_reserve();
    assert_eq!((earlier.began(), earlier.left()), (call.began(), ms(400)), "an eighth of 800 ms is reserved");
    assert_eq!(earlier.within(std::future::pending::<()>()).await, None);
    assert_eq!((earlier.is_over(), call.left()), (true, ms(100)));
    pass(ms(100)).await;
    assert!(call.is_over() && call.left().is_zero());
    let error = call.out_of_time(Effect::Unknown);
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown });
    assert!(error.message().contains("800 ms"), "{error}");
}

#[test]
fn a_pause_is_anything_up_to_its_bound() {
    let random = Random::system();
    let most = Duration::from_secs(1);
    let pauses: Vec<Duration> = (0..1000).map(|_| random.up_to(most)).collect();
    assert!(pauses.iter().all(|pause| *pause <= most));
    // The odds that no pause is in a given tenth are 1 to 10 to the 45.
    for tenth in 0..10 {
        let (from, to) = (most * tenth / 10, most * (tenth + 1) / 10);
        assert!(pauses.iter().any(|pause| (from..to).contains(pause)), "none from {from:?} to {to:?}");
    }
    assert_eq!(random.up_to(Duration::ZERO), Duration::ZERO);
}

// Proves: prefix
#[test]
fn a_prefix_is_added_to_names_and_removed() {
    let prefix = Prefix::new("app:").unwrap();
    assert_eq!((prefix.as_str(), prefix.key(&name("a")).as_str()), ("app:", "app:a"));
    assert_eq!((prefix.strip("app:a"), prefix.strip("a"), prefix.strip("xapp:a")), (Some("a"), None, None));
    assert_eq!(Prefix::default().key(&name("a")), "a");
    assert_eq!(RESERVED_SUFFIX, ":lock~");
    assert!(Prefix::new(RESERVED_SUFFIX).is_err() && Name::new(format!("a{RESERVED_SUFFIX}t")).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hub_notifies_its_feed_of_changed_names() {
    let script = Script::new([granted(ms(900))], [held(ms(900))], [released()]);
    let client = client(&script).await;
    let hub = Hub::default();
    let is_told = async || client.clock().timeout(ms(1), hub.changed()).await.is_some();
    assert!(hub.is_empty() && !is_told().await);
    let first = hub.listen(&name("a"));
    assert!(!hub.is_empty() && is_told().await && !is_told().await);
    let second = hub.listen(&name("a"));
    assert!(!is_told().await, "the name was there already");
    drop(first);
    assert!(!is_told().await && hub.has("a"), "a claim still listens to it");
    hub.wake("a");
    second.woken().await;
    drop(second);
    assert!(is_told().await && hub.is_empty());
}

/// A new field gets a value that a backend of today can leave as it is.
#[test]
fn unset_info_of_a_backend_promises_least() {
    let info = Info::new("toy", "here", Fencing::Always, Lease::Session, ms(10)..=ms(9000));
    assert_eq!((info.backend, info.server.as_str()), ("toy", "here"));
    assert_eq!((info.fencing, info.lease), (Fencing::Always, Lease::Session));
    assert_eq!((info.min_ttl, info.max_ttl), (ms(10), ms(9000)));
    assert_eq!((info.identity, info.fair, info.wakes), (None, Fair::No, Wakes::Polled));
    assert_eq!(
        (info.clock, info.data_loss.as_str()),
        ("the backend does not say", "the backend does not say")
    );
    assert_eq!(info.requests_per_hand_over, 4);
}

#[test]
fn requests_are_made_of_what_they_need() {
    let (random, clock) = (Random::system(), Clock::system());
    let owner = Owner::mint(&random);
    let request = Request::new(name("a"), owner, ms(3000), ms(1000), clock.clone());
    assert_eq!((request.name, request.owner, request.mode), (name("a"), owner, Mode::Exclusive));
    assert_eq!((request.ttl, request.patience), (ms(3000), ms(1000)));
    assert_eq!((request.waits, request.label.as_str()), (Queueing::No, ""));
    let holder = OwnerBytes::new(*b"theirs");
    let revocation = Revocation::new(holder.clone(), owner, Label::new("ops"), When::Now, ms(700));
    assert_eq!((revocation.holder, revocation.by, revocation.when), (holder, owner, When::Now));
    assert_eq!((revocation.label.as_str(), revocation.patience), ("ops", ms(700)));
    assert_eq!(Context::new(clock, random, ms(500)).patience, ms(500));
}

#[test]
fn answers_are_made_of_what_the_server_says() {
    let token = FencingToken::new(7).unwrap();
    let grant = Grant::new(token, ms(3000));
    assert_eq!((grant.token, grant.valid_for, grant.age), (token, ms(3000), Duration::ZERO));
    assert_eq!(grant.with_age(ms(200)).age, ms(200));
    let entry = || Entry::new(OwnerBytes::new(*b"theirs"));
    let busy = Busy::queued().with_free_in(ms(20)).with_holder(entry());
    assert_eq!((busy.queued, busy.free_in), (true, Some(ms(20))));
    assert_eq!(busy.holder.unwrap().owner, entry().owner);
    let busy = Busy::default().with_free_in(None).with_holder(None);
    assert!(!busy.queued && busy.free_in.is_none() && busy.holder.is_none());
    let inspection = Inspection::new(Some(entry()), Some(vec![entry(), entry()]));
    assert!(inspection.holder.is_some() && inspection.waiters.is_some_and(|waiters| waiters.len() == 2));
}
