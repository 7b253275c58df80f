//! The task while nothing is reported: it unsubscribes, checks the connection, and abandons a silent one.

use super::server::{Step, Topic};
use super::{MS, PATIENCE, Scene, name, owner};
use crate::toolkit::feed::Notice;
use crate::toolkit::feed::task::{CHECK, IDLE};

#[tokio::test(start_paused = true)]
async fn an_unused_topic_is_unsubscribed_within_two_sweeps() {
    let scene = Scene::new();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    drop(a);
    scene.clock.sleep(IDLE / 2).await;
    drop(scene.listen("a").await.unwrap());
    assert_eq!(
        scene.server.count("subscribe a"),
        1,
        "a name that is handed over often is not subscribed anew"
    );
    let left = scene.clock.now();
    scene.clock.sleep(IDLE * 3).await;
    let [unsubscribed] = scene.server.times("unsubscribe a")[..] else { panic!("it is unsubscribed once") };
    let after = unsubscribed.since(left);
    assert!(after >= IDLE && after <= IDLE * 2 + MS * 4, "{after:?}");
    assert!(!scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    assert!(scene.feed.is_confirmed(&Topic::Releases(name("b"))), "a claim listens to this one");

    let a = scene.listen("a").await.unwrap();
    assert_eq!(scene.server.count("subscribe a"), 2);
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&b).await);
    assert_eq!(scene.server.count("open"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_topic_for_all_stays_while_any_claim_listens() {
    let scene = Scene::new();
    let waiter = scene.feed.listen(&name("a"), Topic::All, &scene.call()).await.unwrap();
    let holder = scene.feed.watch(owner(), Topic::All, &scene.call()).await.unwrap();
    drop(waiter);
    scene.clock.sleep(IDLE * 3).await;
    assert!(scene.feed.is_confirmed(&Topic::All));
    drop(holder);
    scene.clock.sleep(IDLE * 3).await;
    assert!(!scene.feed.is_confirmed(&Topic::All));
}

#[tokio::test(start_paused = true)]
async fn a_departed_claim_causes_no_connection() {
    let scene = Scene::new();
    scene.server.set("open", Step::Breaks);
    scene.listen("a").await.unwrap_err();
    scene.clock.sleep(PATIENCE * 10).await;
    assert_eq!(scene.server.count("open"), 1, "no claim wants a connection");

    scene.server.set("open", Step::Hangs);
    let gone = tokio::spawn(scene.listen("a"));
    scene.settle().await;
    gone.abort();
    scene.clock.sleep(PATIENCE * 10).await;
    assert_eq!(scene.server.count("open"), 2, "the claim left while it waited");
    scene.server.set("open", Step::Works);
    drop(scene.listen("a").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_checked_while_a_topic_is_subscribed() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    scene.clock.sleep(CHECK * 3 + MS * 10).await;
    assert_eq!(scene.server.count("check"), 3);
    assert!(!scene.is_woken(&a).await);
    scene.server.set("check", Step::Anew);
    scene.clock.sleep(CHECK).await;
    assert!(scene.is_woken(&a).await, "it may have missed something");
    scene.server.set("check", Step::Breaks);
    scene.clock.sleep(CHECK).await;
    assert!(scene.is_woken(&a).await, "the check found it broken");
    scene.server.set("check", Step::Works);
    scene.clock.sleep(IDLE).await;
    assert!(scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    drop(a);
    scene.clock.sleep(IDLE * 3).await;
    let checks = scene.server.count("check");
    scene.clock.sleep(CHECK * 10).await;
    assert_eq!(scene.server.count("check"), checks, "no claim relies on the connection");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_source_costs_only_the_claims_patience() {
    for step in ["open", "subscribe"] {
        let scene = Scene::new();
        scene.server.set(step, Step::Hangs);
        let began = scene.clock.now();
        let error = scene.listen("a").await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{step}: {error:?}");
        let took = scene.clock.now().since(began);
        assert!(took >= PATIENCE && took <= PATIENCE + MS * 2, "{step}: {took:?}");
        scene.server.set(step, Step::Works);
        drop(scene.listen("a").await.unwrap());
    }
    for (step, after) in [("check", CHECK), ("unsubscribe", IDLE * 2)] {
        let scene = Scene::new();
        let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
        scene.server.set(step, Step::Hangs);
        drop(a);
        scene.clock.sleep(after + PATIENCE + IDLE).await;
        assert!(scene.is_woken(&b).await, "{step}: it is given up");
        scene.server.set(step, Step::Works);
        scene.clock.sleep(PATIENCE).await;
        assert!(scene.feed.is_confirmed(&Topic::Releases(name("b"))), "{step}: another one took its place");
        assert!(scene.server.count("open") > 1, "{step}");
    }
}
