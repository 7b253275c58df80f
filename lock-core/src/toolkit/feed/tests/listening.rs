//! A claim subscribes, is woken, and is notified if the server refuses.

use super::server::{Step, Topic};
use super::{MS, PATIENCE, Scene, name, owner};
use crate::error::ErrorKind;
use crate::toolkit::feed::Notice;

#[tokio::test(start_paused = true)]
async fn a_claim_listens_only_after_the_servers_confirmation() {
    let scene = Scene::new();
    assert_eq!(scene.server.count("open"), 0, "no claim listens yet");
    scene.server.set("subscribe", Step::Hangs);
    let first = tokio::spawn(scene.listen("a"));
    scene.clock.sleep(PATIENCE / 2).await;
    assert_eq!(scene.server.count("subscribe a"), 1);
    assert!(!first.is_finished() && !scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    scene.server.set("subscribe", Step::Works);
    let first = first.await.unwrap().unwrap();
    assert!(scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    assert_eq!(scene.server.count("pushed a"), 1, "the source was told");

    let second = scene.listen("a").await.unwrap();
    drop(scene.listen("b").await.unwrap());
    assert_eq!(scene.server.count("subscribe a"), 1, "what is confirmed is not subscribed again");
    assert_eq!(scene.server.count("open"), 1, "one connection serves all claims");
    drop((first, second));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_listens_only_to_confirmed_topics() {
    let scene = Scene::new();
    let already = || scene.feed.listen_already(&name("a"), &Topic::Releases(name("a")));
    assert!(already().is_none());
    assert_eq!(scene.server.count("subscribe a"), 0, "it asks for nothing");
    drop(scene.listen("a").await.unwrap());
    let listening = already().expect("the topic is confirmed for a while after the last claim");
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&listening).await);
    scene.server.cut();
    scene.settle().await;
    assert!(scene.is_woken(&listening).await, "there is a gap");
}

#[tokio::test(start_paused = true)]
async fn a_notice_wakes_the_claims_that_it_is_about() {
    let scene = Scene::new();
    let owner = owner();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    let holder = scene.watch(owner).await.unwrap();
    assert!(!scene.is_woken(&a).await, "a first subscription follows no gap");
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&b).await && !scene.is_woken(&holder).await);
    scene.server.report(Notice::Revoked(owner.to_string()));
    assert!(scene.is_woken(&holder).await && !scene.is_woken(&a).await);
    scene.server.report(Notice::Other);
    scene.server.report(Notice::Released("c".to_owned()));
    for listening in [&a, &b, &holder] {
        assert!(!scene.is_woken(listening).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_leaves_the_rest() {
    let scene = Scene::new();
    scene.server.forbid(Topic::Releases(name("b")));
    let (a, b, c) = tokio::join!(scene.listen("a"), scene.listen("b"), scene.listen("c"));
    let refused = b.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("forbidden"), "{refused}");
    let (a, c) = (a.unwrap(), c.unwrap());
    assert_eq!((scene.server.count("polled b"), scene.server.count("pushed b")), (1, 0));
    assert_eq!(scene.server.count("open"), 1);
    assert!(!scene.is_woken(&a).await && !scene.is_woken(&c).await);

    let scene = Scene::new();
    scene.server.set("open", Step::Refused);
    assert_eq!(scene.listen("a").await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_means_something_else_is_subscribed_again() {
    let scene = Scene::new();
    let (a, b) = (scene.listen("a").await.unwrap(), scene.listen("b").await.unwrap());
    let topic = Topic::Releases(name("a"));
    scene.feed.confirm(topic.clone(), &scene.call()).await.unwrap();
    assert_eq!(scene.server.count("subscribe a"), 1);
    scene.feed.subscribe(topic.clone(), &scene.call()).await.unwrap();
    assert_eq!(scene.server.count("subscribe a"), 2);
    assert!(!scene.is_woken(&a).await);
    scene.server.set("subscribe", Step::Anew);
    scene.feed.subscribe(topic.clone(), &scene.call()).await.unwrap();
    assert!(scene.is_woken(&a).await && scene.is_woken(&b).await);
    scene.server.set("subscribe", Step::Refused);
    scene.feed.subscribe(topic.clone(), &scene.call()).await.unwrap_err();
    assert!(scene.is_woken(&a).await && !scene.feed.is_confirmed(&topic), "it may be reported no more");
}

#[tokio::test(start_paused = true)]
async fn the_connection_ends_with_the_feed() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    assert!(scene.server.is_connected());
    let Scene { server, clock, feed } = scene;
    drop(feed);
    clock.sleep(MS).await;
    assert!(!server.is_connected(), "though a claim listens");
    drop(a);
}
