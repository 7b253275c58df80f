//! A task that comes back to a lock which its client has just given up, while others wait for it.

use std::sync::Arc;

use lock_core::driver::{Fair, Release, Wakes};
use lock_core::{Client, Ending};

use crate::scripted::{Script, busy, client, granted, held, ms, pass};
use crate::{TTL, acquired};

/// The pause of a task between two holds. A client is asked again at once within a millisecond.
const PAUSE: u64 = 2;
/// The time that a client waits for the release of another one that it lets pass.
const PASS_PAUSE: u64 = 5;

/// A client that has waited for another one's release, and has then given the lock up while others waited.
async fn gave_way(wakes: Wakes, fair: Fair) -> (Arc<Script>, Client) {
    let released = (ms(1), Ok(Release::Released { others: Some(true) }));
    let script = Script::new([busy(), busy(), granted(TTL)], [held(TTL)], [released]);
    script.wakes.set(wakes).unwrap();
    script.fair.set(fair).unwrap();
    let client = client(&script).await;
    let release = async {
        if wakes == Wakes::Pushed {
            pass(ms(20)).await;
            script.change.notify_one();
        }
    };
    let (guard, ()) = tokio::join!(acquired(&client), release);
    assert_eq!(guard.release().await, Ending::Released);
    (script, client)
}

/// Has a task come back. Returns how long it took, in milliseconds.
async fn comes_back(script: &Script, client: &Client) -> u64 {
    pass(ms(PAUSE)).await;
    let came = client.clock().now();
    let guard = acquired(client).await;
    let asked = *script.times_of("attempt").last().unwrap();
    assert_eq!(guard.release().await, Ending::Released);
    asked - u64::try_from(came.since_origin().as_millis()).unwrap()
}

// Proves: even-turns
#[tokio::test(start_paused = true)]
async fn it_lets_one_that_waited_for_longer_pass() {
    let (script, client) = gave_way(Wakes::Pushed, Fair::No).await;
    let waiter = async {
        pass(ms(PAUSE + 3)).await;
        script.change.notify_one();
    };
    let (took, ()) = tokio::join!(comes_back(&script, &client), waiter);
    assert_eq!(took, 3, "{:?}", script.log());
    // Another one may have come meanwhile. If none takes the lock, the client does not wait in vain again.
    let took = [comes_back(&script, &client).await, comes_back(&script, &client).await];
    assert_eq!(took, [PASS_PAUSE, 0], "{:?}", script.log());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_hear_others_does_not_wait() {
    let (script, client) = gave_way(Wakes::Polled, Fair::No).await;
    assert_eq!(comes_back(&script, &client).await, 0, "{:?}", script.log());
}

// Proves: even-turns
#[tokio::test(start_paused = true)]
async fn a_client_enters_a_server_queue_at_once() {
    let (script, client) = gave_way(Wakes::Pushed, Fair::PerProcess).await;
    assert_eq!(comes_back(&script, &client).await, 0, "{:?}", script.log());
}

#[tokio::test(start_paused = true)]
async fn it_does_not_wait_a_while_later() {
    let (script, client) = gave_way(Wakes::Pushed, Fair::No).await;
    pass(ms(PASS_PAUSE)).await;
    assert_eq!(comes_back(&script, &client).await, 0, "{:?}", script.log());
}
