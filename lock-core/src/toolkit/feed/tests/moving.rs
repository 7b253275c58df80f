//! A lock goes to another server, which reports its releases from then on.

use super::server::{Step, Topic};
use super::{Scene, name};
use crate::error::{Effect, ErrorKind};
use crate::toolkit::feed::Notice;

fn releases(of: &str) -> Topic {
    Topic::Releases(name(of))
}

#[tokio::test(start_paused = true)]
async fn only_waiters_of_a_moved_lock_are_woken() {
    let scene = Scene::new();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    scene.server.send_elsewhere(releases("a"));
    scene.server.report(Notice::Moved("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&b).await);
    assert!(!scene.feed.is_confirmed(&releases("a")) && scene.feed.is_confirmed(&releases("b")));
    assert_eq!(scene.server.count("polled a"), 0, "no rights are missing");
    let elsewhere = scene.listen("a").await.unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
    scene.server.report(Notice::Released("b".to_owned()));
    assert!(scene.is_woken(&b).await);
    assert_eq!(scene.server.count("open"), 1, "the connection stays");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_has_come_back_is_subscribed_again() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    scene.server.report(Notice::Moved("a".to_owned()));
    assert!(scene.is_woken(&a).await, "it was away, and a release may have been missed");
    assert_eq!(scene.server.count("subscribe a"), 2);
    assert!(scene.feed.is_confirmed(&releases("a")));
    scene.server.report(Notice::Moved("of no claim".to_owned()));
    scene.settle().await;
    assert_eq!(scene.server.count("subscribe "), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_elsewhere_after_a_gap_leaves_the_rest() {
    let scene = Scene::new();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    scene.server.send_elsewhere(releases("a"));
    scene.server.cut();
    assert!(scene.is_woken(&a).await && scene.is_woken(&b).await, "there is a gap");
    scene.clock.sleep(super::PATIENCE).await;
    assert!(scene.is_woken(&a).await && scene.is_woken(&b).await, "the gap is over");
    assert!(!scene.feed.is_confirmed(&releases("a")) && scene.feed.is_confirmed(&releases("b")));
}

#[tokio::test(start_paused = true)]
async fn a_break_after_a_move_leaves_a_gap() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    scene.server.set("subscribe", Step::Breaks);
    scene.server.report(Notice::Moved("a".to_owned()));
    assert!(scene.is_woken(&a).await);
    scene.clock.sleep(super::PATIENCE).await;
    assert!(!scene.is_woken(&a).await);
    scene.server.set("subscribe", Step::Works);
    scene.clock.sleep(super::PATIENCE).await;
    assert!(scene.is_woken(&a).await, "the gap is over");
}
