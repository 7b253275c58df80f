//! Notices that time went on while this process did not run: the machine was suspended, or the process was stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::task_count::TaskCount;
use crate::clock::Clock;
use crate::events::{Event, Events};

/// The task that watches a client's clock. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct SuspendWatch {
    /// The shortest ttl in use, in milliseconds. It decides how often the task reads the clock.
    shortest_ttl: Arc<AtomicU64>,
    task: AbortHandle,
}

impl SuspendWatch {
    /// Starts the task on `runtime`. It reads the clock only while claims are alive.
    pub(crate) fn start(
        runtime: &Handle,
        task_count: Arc<TaskCount>,
        clock: Clock,
        events: Arc<Events>,
    ) -> SuspendWatch {
        let shortest_ttl = Arc::new(AtomicU64::new(u64::MAX));
        let watching = watch(task_count, clock, events, shortest_ttl.clone());
        SuspendWatch { shortest_ttl, task: runtime.spawn(watching).abort_handle() }
    }

    /// Makes sure that a suspend is noticed within a tenth of `ttl`, but not sooner than in 20 ms.
    pub(crate) fn notice_within(&self, ttl: Duration) {
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.shortest_ttl.fetch_min(millis, Ordering::Relaxed);
    }
}

impl Drop for SuspendWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Notices within a second or a tenth of a ttl that time went on while this process did not run. Costs nothing while no
/// claim is alive.
async fn watch(task_count: Arc<TaskCount>, clock: Clock, events: Arc<Events>, shortest_ttl: Arc<AtomicU64>) {
    loop {
        task_count.wait_until_not_empty().await;
        let step = Duration::from_millis(shortest_ttl.load(Ordering::Relaxed) / 10)
            .clamp(SHORTEST_STEP, LONGEST_STEP);
        if let Some(by) = clock.watch(step).await {
            events.report(&Event::Jumped { by });
        }
    }
}

const SHORTEST_STEP: Duration = Duration::from_millis(20);
const LONGEST_STEP: Duration = Duration::from_secs(1);
