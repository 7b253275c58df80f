//! Entering again: what the server is asked for it, and when.

use lock_core::{Client, Effect, Ending, ErrorKind, Guard, Lock, Reentrant};

use super::scripted::{Script, busy, client, granted, held, ms, pass, released, unknown};
use super::{PATIENCE, TTL};

fn lock(client: &Client, owner: &Reentrant) -> Lock {
    client.lock("n").ttl(TTL).reentrant(owner).build().unwrap()
}

async fn entered(client: &Client, owner: &Reentrant) -> Guard {
    lock(client, owner).acquire().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_last_one_out_releases_and_the_others_renew() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let (client, owner) = (client(&script).await, Reentrant::new());
    let (first, second) = (entered(&client, &owner).await, entered(&client, &owner).await);
    let third = entered(&client, &owner).await;
    pass(ms(100)).await;
    assert_eq!(first.release().await, Ending::Released);
    pass(ms(100)).await;
    drop(second);
    pass(ms(100)).await;
    assert_eq!(script.times_of("attempt"), [0]);
    assert_eq!(script.times_of("renew"), [101, 202]);
    assert!(script.times_of("release").is_empty());
    assert_eq!(third.release().await, Ending::Released);
    assert_eq!(script.times_of("release").len(), 1);
}

// Proves: entering-is-free
#[tokio::test(start_paused = true)]
async fn a_client_shutting_down_lets_holders_reenter() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let (client, owner) = (client(&script).await, Reentrant::new());
    let outer = entered(&client, &owner).await;
    assert_eq!(client.shutdown(ms(10)).await, 1, "one lock is held");
    let inner = entered(&client, &owner).await;
    assert_eq!(
        lock(&client, &Reentrant::new()).acquire().await.unwrap_err().kind(),
        ErrorKind::Unavailable { effect: Effect::NotApplied }
    );
    drop((outer, inner));
    assert_eq!(client.shutdown(TTL).await, 0);
}

#[tokio::test(start_paused = true)]
async fn many_that_go_at_once_renew_once() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let (client, owner) = (client(&script).await, Reentrant::new());
    let guard = entered(&client, &owner).await;
    for _ in 0..2 {
        for _ in 0..1000 {
            drop(entered(&client, &owner).await);
        }
        pass(ms(10)).await;
    }
    assert_eq!(script.times_of("renew").len(), 2);
    assert_eq!(guard.release().await, Ending::Released);
}

#[tokio::test(start_paused = true)]
async fn a_partial_release_without_server_reports_the_hold() {
    let script = Script::new([granted(TTL)], [unknown(PATIENCE)], [released()]);
    let (client, owner) = (client(&script).await, Reentrant::new());
    let (outer, inner) = (entered(&client, &owner).await, entered(&client, &owner).await);
    let last = entered(&client, &owner).await;
    assert_eq!(inner.release().await, Ending::Released);
    assert!(outer.is_held());
    pass(TTL).await;
    assert_eq!(outer.release().await, Ending::Expired);
    assert_eq!(lock(&client, &owner).acquire().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(last.release().await, Ending::Expired);
}

#[tokio::test(start_paused = true)]
async fn guards_that_go_in_the_same_moment_release_once() {
    for release_all in [true, false] {
        let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
        let (client, owner) = (client(&script).await, Reentrant::new());
        let (one, two) = (entered(&client, &owner).await, entered(&client, &owner).await);
        match release_all {
            true => {
                assert_eq!(tokio::join!(one.release(), two.release()), (Ending::Released, Ending::Released));
            }
            false => {
                let releasing = one.release();
                drop(two);
                assert_eq!(releasing.await, Ending::Released);
            }
        }
        assert_eq!(client.shutdown(TTL).await, 0);
        assert_eq!(script.times_of("release").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_task_enters_with_the_granted_one() {
    let script = Script::new([busy(), busy(), granted(TTL)], [held(TTL)], [released()]);
    let (client, owner) = (client(&script).await, Reentrant::new());
    let waiting = tokio::spawn({
        let lock = lock(&client, &owner);
        async move { lock.acquire().await }
    });
    let (one, two) = tokio::join!(entered(&client, &owner), waiting);
    let two = two.unwrap().unwrap();
    assert_eq!(one.owner(), two.owner());
    drop((one, two));
    assert_eq!(client.shutdown(TTL).await, 0);
    // Nothing is kept of a name that is not held.
    assert_eq!(format!("{owner:?}"), "{}");
}
