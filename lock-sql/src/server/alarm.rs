//! A timer for the calls of one task.

use std::pin::Pin;

use lock_core::{Clock, Instant};

/// A timer for many calls, one after the other. It stays set from call to call: it would be set and taken back for each
/// statement otherwise.
#[derive(Default)]
pub(super) struct Alarm(Option<Set>);

/// A timer that is set for a moment.
struct Set {
    at: Instant,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Alarm {
    /// Waits until `at`. Cancel safe.
    pub(super) async fn ring_at(&mut self, clock: &Clock, at: Instant) {
        loop {
            let set = match self.0.take() {
                Some(set) if set.at <= at => set,
                _ if clock.now() >= at => return,
                _ => Set::new(clock.clone(), at),
            };
            self.0.insert(set).timer.as_mut().await;
            self.0 = None;
        }
    }
}

impl Set {
    fn new(clock: Clock, at: Instant) -> Set {
        Set { at, timer: Box::pin(async move { clock.sleep_until(at).await }) }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use super::super::tests::poll_once;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn it_rings_at_the_moment_of_each_call_whatever_it_was_set_for_before() {
        let (clock, mut alarm) = (Clock::tokio(), Alarm::default());
        for after in [5000 * MS, 30 * MS, 250 * MS, MS, 101 * MS] {
            // The call that it was set for has been answered.
            let before = clock.now() + 10_000 * MS;
            assert!(poll_once(pin!(alarm.ring_at(&clock, before))).await.is_pending());
            let at = clock.now() + after;
            alarm.ring_at(&clock, at).await;
            let late = clock.now().since(at);
            assert!(clock.now() >= at && late <= 2 * MS, "set for {after:?}: {late:?} late");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_stays_set_from_call_to_call() {
        let (clock, mut alarm) = (Clock::tokio(), Alarm::default());
        let mut set_for = Vec::new();
        for _ in 0..99 {
            assert!(poll_once(pin!(alarm.ring_at(&clock, clock.now() + 5000 * MS))).await.is_pending());
            set_for.extend(alarm.0.as_ref().map(|set| set.at));
            clock.sleep(MS).await;
        }
        assert_eq!(set_for, vec![set_for[0]; 99]);
    }
}
