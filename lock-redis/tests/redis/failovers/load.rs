//! Clients that contend for locks, whatever happens to the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lock_conformance::timing::within;
use lock_core::{Client, ErrorKind, Guard, Lock};
use tokio::task::JoinSet;

use super::FAILOVER;
use super::history::{Held, History, Loss};

/// The number of clients. Each has a task for each name.
const CLIENTS: usize = 3;
/// Between two writes of a holder.
const PAUSE: Duration = Duration::from_millis(4);
/// The time after a loss at which a holder writes once more.
const LATE: Duration = Duration::from_millis(500);

/// A name that clients contend for.
#[derive(Debug)]
pub(super) struct Contended {
    pub(super) name: String,
    /// The group of copies that has the lock.
    pub(super) group: usize,
    pub(super) turn: Turn,
}

/// The way in which a name is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// For a moment.
    Short,
    /// For longer than a failover takes, with renewals.
    Long,
}

impl Turn {
    pub(super) fn ttl(self) -> Duration {
        match self {
            Turn::Short => Duration::from_millis(1500),
            Turn::Long => Duration::from_millis(4500),
        }
    }

    fn length(self) -> Duration {
        match self {
            Turn::Short => Duration::from_millis(5),
            Turn::Long => Duration::from_millis(3500),
        }
    }
}

/// The clients, their tasks, and what these have seen.
pub(super) struct Load {
    history: Arc<History>,
    clients: Vec<Client>,
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Load {
    pub(super) async fn start(url: &str, names: &[Contended]) -> Load {
        let history = Arc::new(History::of(names.len()));
        let (mut clients, is_over, mut tasks) = (Vec::new(), Arc::<AtomicBool>::default(), JoinSet::new());
        for _ in 0..CLIENTS {
            let client = lock_redis::connect(url).await.expect("the servers were started just now");
            for (number, contended) in names.iter().enumerate() {
                let lock = client
                    .lock(contended.name.as_str())
                    .ttl(contended.turn.ttl())
                    .wait(FAILOVER)
                    .build()
                    .unwrap();
                let length = contended.turn.length();
                let contender = Contender { lock, number, length, history: history.clone() };
                tasks.spawn(contender.contend(is_over.clone()));
            }
            clients.push(client);
        }
        Load { history, clients, is_over, tasks }
    }

    pub(super) fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Waits until all that was held is released.
    pub(super) async fn stop(mut self) -> (Arc<History>, Vec<Client>) {
        self.is_over.store(true, Ordering::SeqCst);
        within("all end", FAILOVER, async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.expect("no contender panics");
            }
        })
        .await;
        (self.history, self.clients)
    }
}

struct Contender {
    lock: Lock,
    /// The number of the name.
    number: usize,
    length: Duration,
    history: Arc<History>,
}

impl Contender {
    async fn contend(self, is_over: Arc<AtomicBool>) {
        while !is_over.load(Ordering::SeqCst) {
            match self.lock.acquire().await {
                Ok(guard) => self.hold(guard).await,
                Err(e) => assert!(e.is_transient() || e.kind() == ErrorKind::Timeout, "{e:?}"),
            }
        }
    }

    /// Writes to the resource again and again while the lock is held, and once more when it was lost, as a holder does that
    /// notices late.
    async fn hold(&self, guard: Guard) {
        let granted = Instant::now();
        if guard.is_held() {
            self.history.granted(self.number, granted);
        }
        let (mut last_held, mut deadline) = (granted, granted);
        let lost = loop {
            let now = Instant::now();
            let left = guard.valid_for();
            if !left.is_zero() {
                (last_held, deadline) = (now, Instant::now() + left);
                self.history.write(self.number, &guard);
                if now - granted >= self.length {
                    break None;
                }
            }
            tokio::select! {
                biased;
                why = guard.lost() => break Some(Loss { why, told: Instant::now(), deadline }),
                () = tokio::time::sleep(PAUSE) => {}
            }
        };
        if lost.is_some() {
            tokio::time::sleep(LATE).await;
            self.history.write(self.number, &guard);
        }
        // A guard that the caller got too late was never held.
        if last_held > granted {
            let token = guard.token().get();
            self.history.ended(Held { name: self.number, token, granted, last_held, lost });
        }
        guard.release().await;
    }
}
