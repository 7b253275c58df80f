//! Cases for servers on which each waiter has a place.

use std::time::{Duration, Instant};

use super::{Contender, Foreign, is_refused, waits_for_a_turn};
use crate::LIMIT;

/// The pause between two looks at the server.
const PAUSE: Duration = Duration::from_millis(5);

/// One client holds a lock. The other one is refused, waits, and has the lock when it is released, and not before. Then
/// the first one is refused. `looker` counts the clients on the server.
pub async fn one_holds_and_the_other_waits(
    one: &mut dyn Contender,
    other: &mut dyn Contender,
    looker: &mut dyn Foreign,
) {
    let name = "one-waits";
    one.acquire(name).await;
    is_refused(other, name).await;
    other.ask(name).await;
    are_on_the_server(2, looker, name).await;
    waits_for_a_turn(other, looker).await;
    one.release(name).await;
    other.held().await;
    is_refused(one, name).await;
    other.release(name).await;
    are_on_the_server(0, looker, name).await;
}

/// One client holds a lock; a second and a third one wait for it. The second one is killed, and is gone when its
/// session has ended. The third one, which is behind it in the queue, is told of that, and still waits for the first
/// one.
pub(crate) async fn the_one_between_goes(
    first: &mut dyn Contender,
    mut second: Box<dyn Foreign>,
    third: &mut dyn Contender,
    looker: &mut dyn Foreign,
) {
    let name = "one-between";
    first.acquire(name).await;
    second.ask(name).await;
    are_on_the_server(2, looker, name).await;
    third.ask(name).await;
    are_on_the_server(3, looker, name).await;
    drop(second);
    are_on_the_server(2, looker, name).await;
    waits_for_a_turn(third, looker).await;
    first.release(name).await;
    third.held().await;
    third.release(name).await;
}

async fn are_on_the_server(number: u64, looker: &mut dyn Foreign, name: &str) {
    let start = Instant::now();
    loop {
        let found = looker.queue(name).await;
        if found == number {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{found} hold {name} or wait for it, not {number}");
        tokio::time::sleep(PAUSE).await;
    }
}
