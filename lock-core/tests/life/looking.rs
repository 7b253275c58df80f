//! A waiter looks at a held lock after a part of its wait, after the end of the holder's lease, or when the
//! server has notified it.

use std::sync::Arc;

use lock_core::driver::{Attempt, Busy, Wakes};
use lock_core::{Client, Guard, Result};
use tokio::task::JoinHandle;

use crate::scripted::{Script, Step, busy, busy_with, client, held, ms, pass, released};
use crate::{TTL, lock};

/// A server whose wake-ups are pushed, and that answers attempts like this.
async fn pushing(attempt: Step<Attempt>) -> (Arc<Script>, Client) {
    let script = Script::new([attempt], [held(TTL)], [released()]);
    script.wakes.set(Wakes::Pushed).unwrap();
    let client = client(&script).await;
    (script, client)
}

fn waits(client: &Client) -> JoinHandle<Result<Guard>> {
    let lock = lock(client);
    tokio::spawn(async move { lock.acquire().await })
}

/// Between 5 and 250 ms; the timer's 2 ms are taken off, and up to an eighth is random.
#[track_caller]
fn assert_looked_within_an_eighth(looks: &[u64]) {
    // The second look comes at once: the claim has begun to listen.
    assert_eq!(looks[..2], [0, 1]);
    for pair in looks[1..].windows(2) {
        // Each answer takes 1 ms.
        let waited = pair[0] + 1;
        let (pause, most) = ((pair[1] - waited) * 1000, (waited * 125).clamp(5_000, 250_000) - 2_000);
        // In microseconds. A timer counts whole milliseconds and rounds up.
        assert!((most * 7 / 8..most + 1000).contains(&pause), "{pause} µs after {waited} ms, not {most}");
    }
    let late = looks.iter().filter(|at| **at >= 10_000).count();
    assert!((40..=50).contains(&late), "four to five times a second: {late} looks in 10 s");
}

// Proves: looks-by-itself
#[tokio::test(start_paused = true)]
async fn a_polling_waiter_looks_within_an_eighth_of_wait() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let waiting = waits(&client(&script).await);
    pass(ms(20_000)).await;
    waiting.abort();
    assert_looked_within_an_eighth(&script.times_of("attempt"));
}

/// Another library's holder, on a server that pushes the releases of this one.
#[tokio::test(start_paused = true)]
async fn a_waiter_behind_a_silent_holder_polls_and_wakes() {
    let (script, client) =
        pushing((ms(1), Ok(Attempt::Busy(Busy::default().and_without_notification())))).await;
    let waiting = waits(&client);
    pass(ms(20_000)).await;
    let looks = script.times_of("attempt");
    assert_looked_within_an_eighth(&looks);
    while script.times_of("attempt").len() == looks.len() {
        pass(ms(1)).await;
    }
    // Well before the next look.
    pass(ms(20)).await;
    let notified = u64::try_from(client.clock().now().since_origin().as_millis()).unwrap();
    script.change.notify_one();
    pass(ms(1)).await;
    assert_eq!(script.times_of("attempt")[looks.len() + 1..], [notified]);
    waiting.abort();
}

// Proves: looks-by-itself
#[tokio::test(start_paused = true)]
async fn a_waiter_looks_shortly_after_the_shown_lease_end() {
    for _ in 0..6 {
        let (script, client) = pushing(busy_with("deploy@web-3", ms(60_000), ms(2000))).await;
        let waiting = waits(&client);
        pass(ms(3000)).await;
        waiting.abort();
        let looks = script.times_of("attempt");
        // Shown after 2 ms. A moment is 1 to 6 ms.
        assert!(looks.len() == 3 && (2003..=2008).contains(&looks[2]), "{looks:?}");
    }
}

// Proves: acquire
#[tokio::test(start_paused = true)]
async fn it_looks_as_soon_as_it_is_notified() {
    let (script, client) = pushing(busy()).await;
    let waiting = waits(&client);
    let mut notified = vec![0, 1];
    for _ in 0..6 {
        pass(ms(100)).await;
        notified.push(u64::try_from(client.clock().now().since_origin().as_millis()).unwrap());
        script.change.notify_one();
    }
    pass(ms(100)).await;
    assert_eq!(script.times_of("attempt"), notified, "at these moments, and at no other");
    waiting.abort();
}

// Proves: looks-by-itself
/// A message can be lost, and a holder that dies sends none.
#[tokio::test(start_paused = true)]
async fn without_any_news_it_looks_within_five_seconds() {
    let (script, client) = pushing(busy()).await;
    let waiting = waits(&client);
    pass(ms(60_000)).await;
    waiting.abort();
    let looks = script.times_of("attempt");
    let pauses: Vec<_> = looks[1..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.len() >= 11 && pauses.iter().all(|pause| (3751..=5002).contains(pause)), "{pauses:?}");
}
