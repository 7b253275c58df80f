use std::sync::Arc;
use std::time::Duration;

use lock_core::Client;
use lock_memory::Memory;

use super::{Contenders, KeptLocks};
use crate::failure::Failure;

const TTL: Duration = Duration::from_secs(5);

/// Returns two clients of one server and one of another server, which knows nothing of what they hold, as after a
/// failover that lost it.
async fn clients() -> (Client, Client, Client) {
    let memory = Memory::new();
    let forgetful = Memory::new().client().await.unwrap();
    (memory.client().await.unwrap(), memory.client().await.unwrap(), forgetful)
}

/// Runs a test that must fail as wrong and not as late, and returns why it failed.
async fn fails(test: impl Future<Output = ()> + Send + 'static) -> String {
    let failed = tokio::spawn(test).await.expect_err("it passes");
    match Failure::of(&*failed.into_panic()) {
        Failure::Wrong(why) => why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_was_granted_last_and_is_forgotten_is_seen() {
    let (holder, other, forgetful) = clients().await;
    KeptLocks::begin(holder.clone(), "kept").await.is_kept(&other).await;
    let kept = KeptLocks::begin(holder, "forgotten").await;
    let why = fails(async move { kept.is_kept(&forgetful).await }).await;
    assert!(why.contains("two holders"), "{why}");
}

#[tokio::test]
async fn what_is_held_throughout_and_is_forgotten_is_seen() {
    let (holder, other, forgetful) = clients().await;
    for (contender, is_forgotten) in [(other, false), (forgetful, true)] {
        let guard = Arc::new(holder.lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap());
        let mut contenders = Contenders::new(TTL, TTL);
        contenders.contest(&contender, &guard);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let ends = async move { _ = contenders.end().await };
        match is_forgotten {
            false => ends.await,
            true => assert!(fails(ends).await.contains("two holders")),
        }
        drop(guard);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn turns_on_two_servers_are_seen_to_overlap() {
    let (one, same, forgetful) = clients().await;
    for (second, is_forgotten) in [(same, false), (forgetful, true)] {
        let mut contenders = Contenders::new(TTL, TTL);
        contenders.take_turns(&one, "a");
        contenders.take_turns(&second, "a");
        let goes_on = async move {
            contenders.go_on(30, Duration::from_secs(5)).await;
            contenders.end().await;
        };
        match is_forgotten {
            false => goes_on.await,
            true => assert!(fails(goes_on).await.contains("a: ")),
        }
    }
}
