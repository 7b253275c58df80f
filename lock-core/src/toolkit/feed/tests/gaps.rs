//! A connection breaks: which claims are woken, and when the next one is opened.

use std::time::Duration;

use super::server::{Step, Topic};
use super::{MS, PATIENCE, Scene, name, owner};
use crate::clock::Instant;
use crate::toolkit::feed::Notice;

#[tokio::test(start_paused = true)]
async fn breaks_and_resubscriptions_wake_every_claim() {
    let scene = Scene::new();
    let (a, holder) = (scene.listen("a").await.unwrap(), scene.watch(owner()).await.unwrap());
    scene.server.set("open", Step::Breaks);
    scene.server.cut();
    assert!(scene.is_woken(&a).await && scene.is_woken(&holder).await, "nothing is reported from now on");
    assert!(!scene.feed.is_confirmed(&Topic::Revokes));
    scene.clock.sleep(PATIENCE).await;
    assert!(!scene.is_woken(&a).await, "a connection that can't be opened changes nothing");
    scene.server.set("open", Step::Works);
    scene.clock.sleep(PATIENCE).await;
    assert!(scene.is_woken(&a).await && scene.is_woken(&holder).await, "the gap is over");
    assert_eq!(scene.server.count("subscribe a !"), 1, "all topics are subscribed again, in one request");
    scene.server.report(Notice::Released("a".to_owned()));
    assert!(scene.is_woken(&a).await && !scene.is_woken(&holder).await);
}

#[tokio::test(start_paused = true)]
async fn a_command_does_not_hide_its_gap() {
    let scene = Scene::new();
    let (a, holder) = (scene.listen("a").await.unwrap(), scene.watch(owner()).await.unwrap());
    scene.server.set("open", Step::Breaks);
    scene.server.cut();
    assert!(scene.is_woken(&holder).await && scene.is_woken(&a).await);
    let late = scene.watch(owner()).await.unwrap_err();
    assert!(late.is_transient() && !late.may_have_taken_effect(), "{late:?}");
    // The pauses are long by now, and the order comes in one of them.
    scene.clock.sleep(PATIENCE).await;
    scene.server.set("open", Step::Works);
    drop(scene.watch(owner()).await.unwrap());
    assert!(scene.is_woken(&holder).await && scene.is_woken(&a).await);
}

#[tokio::test(start_paused = true)]
async fn refused_topics_do_not_hide_a_gap() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    scene.server.forbid(Topic::Releases(name("a")));
    scene.server.cut();
    assert!(scene.is_woken(&a).await);
    scene.clock.sleep(PATIENCE).await;
    assert!(scene.is_woken(&a).await && !scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    assert_eq!(scene.server.count("polled a"), 1);
}

#[tokio::test(start_paused = true)]
async fn the_backoff_doubles_and_a_confirmed_topic_resets_it() {
    let scene = Scene::new();
    let a = scene.listen("a").await.unwrap();
    for broken in ["open", "subscribe"] {
        scene.server.set(broken, Step::Breaks);
        let cut = scene.server.cut();
        scene.clock.sleep(Duration::from_secs(20)).await;
        let tries = scene.server.times("open").into_iter().filter(|at| *at > cut);
        let pauses = pauses(&[cut].into_iter().chain(tries).collect::<Vec<_>>());
        assert!(pauses.len() >= 9, "{pauses:?}");
        for (round, pause) in pauses.into_iter().enumerate() {
            let longest = Duration::from_millis(50 << round.min(10)).min(Duration::from_secs(2));
            // A timer counts whole milliseconds.
            assert!(pause >= longest / 2 && pause <= longest + MS * 2, "{broken}: {round}: {pause:?}");
        }
        scene.server.set(broken, Step::Works);
        scene.clock.sleep(Duration::from_secs(3)).await;
        assert!(scene.feed.is_confirmed(&Topic::Releases(name("a"))));
    }
    drop(a);
}

/// Returns the pauses between one moment and the next.
fn pauses(moments: &[Instant]) -> Vec<Duration> {
    moments.windows(2).map(|pair| pair[1].since(pair[0])).collect()
}
