//! A timer for the calls of one task.

use std::pin::Pin;
use std::time::Duration;

use lock_core::{Clock, Instant};

/// A timer for many calls, one after the other. It goes on from call to call, because a timer for each call would be
/// set and taken back for each statement.
#[derive(Default)]
pub(super) struct Alarm(Option<Set>);

/// A timer that is set for a moment.
struct Set {
    at: Instant,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The longest time that it is set for. While a call is under way, the runtime then sleeps for no longer; so a timer
/// that is set for longer, as for a lock that has just been granted, need not wake it up. That would be a system call
/// for each lock.
const LONGEST: Duration = Duration::from_millis(100);

impl Alarm {
    /// Waits until `at`. Cancel safe.
    pub(super) async fn ring_at(&mut self, clock: &Clock, at: Instant) {
        loop {
            let set = match self.0.take() {
                Some(set) if set.at <= at => set,
                _ if clock.now() >= at => return,
                _ => Set::new(clock.clone(), at.min(clock.now() + LONGEST)),
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
