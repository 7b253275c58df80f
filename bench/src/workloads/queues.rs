//! The crowd of `crowd`, in its process: many tasks of one client that wait for a few names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use onelock::{Client, Ending, Guard, Lock};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinError, JoinHandle};

use crate::Outcome;
use crate::subjects::TTL;
use crate::usage::{grown_since, resident_bytes};

/// How long the first task of each name has to send its requests, once all tasks have begun to wait.
const SETTLE: Duration = Duration::from_secs(1);
/// How often it is looked whether all tasks have begun to wait.
const LOOK: Duration = Duration::from_millis(10);
/// The time limit of the client's shutdown.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// Names that are held, and the tasks that wait for them.
pub(super) struct Queues {
    client: Client,
    /// The lock of each name, while it is not being handed on.
    held: Vec<Option<Guard>>,
    waiting: Vec<JoinHandle<()>>,
    grants: UnboundedReceiver<onelock::Result<Grant>>,
    /// By how much this process has grown for its tasks.
    pub(super) grown: Option<u64>,
}

/// What a task got that had waited.
struct Grant {
    name: usize,
    guard: Guard,
    at: Instant,
}

impl Queues {
    /// Acquires this many names, and returns when all tasks wait, each name having as many of them.
    pub(super) async fn begin(url: &str, name: &str, names: usize, tasks: usize) -> Outcome<Queues> {
        let client = onelock::connect(url).await?;
        let (mut locks, mut held) = (Vec::new(), Vec::new());
        for n in 0..names {
            let lock = client.lock(format!("{name}:{n}")).ttl(TTL).build()?;
            held.push(Some(lock.acquire().await?));
            locks.push(lock);
        }
        let (sender, grants) = unbounded_channel();
        let (begun, before) = (Arc::new(AtomicUsize::new(0)), resident_bytes());
        let task = |nth: usize| {
            let name = nth % names;
            tokio::spawn(wait(name, locks[name].clone(), begun.clone(), sender.clone()))
        };
        let waiting = (0..tasks).map(task).collect();
        while begun.load(Ordering::Relaxed) < tasks {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(SETTLE).await;
        Ok(Queues { client, held, waiting, grants, grown: grown_since(before) })
    }

    /// Hands on one name after the other, for so long, but leaves half of the tasks waiting. Returns how long each took
    /// from before the release to the grant, in nanoseconds.
    pub(super) async fn hand_on(&mut self, length: Duration) -> Outcome<Vec<u64>> {
        let (end, most) = (Instant::now() + length, self.waiting.len() / 2);
        let mut latencies = Vec::new();
        for name in (0..self.held.len()).cycle().take(most) {
            if Instant::now() >= end {
                break;
            }
            latencies.push(u64::try_from(self.hand_over(name).await?.as_nanos())?);
        }
        Ok(latencies)
    }

    async fn hand_over(&mut self, name: usize) -> Outcome<Duration> {
        let guard = self.held[name].take().ok_or("a name was handed on twice")?;
        let released = Instant::now();
        if guard.release().await == Ending::Expired {
            return Err("a lock had expired before its release".into());
        }
        let Grant { name, guard, at } = self.grants.recv().await.ok_or("no task waits any more")??;
        self.held[name] = Some(guard);
        Ok(at.saturating_duration_since(released))
    }

    /// Ends all waits, and releases the locks.
    pub(super) async fn end(self) -> Outcome<()> {
        self.waiting.iter().for_each(JoinHandle::abort);
        for task in self.waiting {
            // Each has been aborted, or has had its turn.
            let _: Result<(), JoinError> = task.await;
        }
        for guard in self.held.into_iter().flatten() {
            guard.release().await;
        }
        match self.client.shutdown(SHUTDOWN).await {
            0 => Ok(()),
            left => Err(format!("{left} claims could not be ended").into()),
        }
    }
}

/// What each task does: it waits, and gives away what it gets.
async fn wait(
    name: usize,
    lock: Lock,
    begun: Arc<AtomicUsize>,
    grants: UnboundedSender<onelock::Result<Grant>>,
) {
    // The wait begins before this task is left for the first time.
    begun.fetch_add(1, Ordering::Relaxed);
    let granted = lock.acquire().await.map(|guard| Grant { name, guard, at: Instant::now() });
    // No receiver is left when the crowd has ended; then the lock is released here.
    drop(grants.send(granted));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_task_waits_until_a_name_is_handed_to_it() {
        let mut queues = Queues::begin("memory://", "lock-bench:queues", 3, 30).await.unwrap();
        assert_eq!(queues.grants.len(), 0, "no task has a lock");
        let latencies = queues.hand_on(Duration::from_secs(60)).await.unwrap();
        assert_eq!(latencies.len(), 15, "half of the tasks wait on");
        assert!(latencies.iter().all(|latency| *latency > 0) && queues.held.iter().all(Option::is_some));
        assert_eq!(queues.waiting.iter().filter(|task| task.is_finished()).count(), 15);
        queues.end().await.unwrap();
    }

    #[tokio::test]
    async fn no_name_is_handed_on_after_the_time() {
        let mut queues = Queues::begin("memory://", "lock-bench:queues:time", 1, 4).await.unwrap();
        assert_eq!(queues.hand_on(Duration::ZERO).await.unwrap().len(), 0);
        queues.end().await.unwrap();
    }
}
