//! A watchdog: a thread that wakes the sleepers of a client when its timer queue's task does not.
//!
//! That task runs on the client's runtime. While that runtime stands still, because no thread drives it or because code
//! blocks it, or when it has ended, the task wakes no sleeper. A caller that is not on that runtime must still find that
//! its time is over: it may be on another runtime, on an executor without timers, or a thread without async.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task;

use super::Clock;
use super::timer_queue::Queue;

/// The time from a sleeper's moment until the watchdog wakes it: the task is mostly sooner.
const LATE: Duration = Duration::from_millis(2);

/// The watchdog of one timer queue. Its thread is started by the first sleeper that needs it, and ends with the queue. A
/// client that is used on its own runtime alone has no such thread.
#[derive(Debug)]
pub(super) struct Watchdog {
    runtime: Handle,
    /// Has no queue itself.
    clock: Clock,
    is_started: AtomicBool,
}

impl Watchdog {
    pub(super) fn new(runtime: &Handle, clock: Clock) -> Watchdog {
        Watchdog { runtime: runtime.clone(), clock, is_started: AtomicBool::new(false) }
    }

    /// Starts the thread, unless the present poll is by a task of the client's runtime: that one runs only while its
    /// runtime does.
    pub(super) fn start_unless_at_home(&self, queue: &Arc<Queue>) {
        if self.is_started.load(Ordering::Acquire) || self.is_at_home() {
            return;
        }
        if self.is_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let (runtime, clock, queue) = (self.runtime.clone(), self.clock.clone(), queue.clone());
        let thread = thread::Builder::new().name("lock-watchdog".into()).spawn(move || {
            // tokio's clock shows the time of the runtime that is entered.
            let _entered = runtime.enter();
            while queue.wait_for_overdue(&clock, LATE) {}
        });
        // Without the thread, the next sleeper tries again.
        self.is_started.store(thread.is_ok(), Ordering::Release);
    }

    #[cfg(test)]
    pub(super) fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Acquire)
    }

    fn is_at_home(&self) -> bool {
        task::try_id().is_some()
            && Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id())
    }
}
