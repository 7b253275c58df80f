//! The task behind the wake-ups: listens on a connection, wakes claims, reconnects.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::driver::{Context, Hub, Prefix};
use lock_core::{Clock, Random};
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use tokio::sync::{mpsc, oneshot};

use super::session::Sessions;
use super::{errors, payload};

/// The first pause before the next connection is opened after one broke; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often the connection is checked while a claim listens.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// A claim's request to be notified of releases or revokes.
#[derive(Debug)]
pub(super) struct ListenRequest {
    /// The number of the table; `None` if the claim doesn't know it.
    pub(super) table: Option<i64>,
    pub(super) reply: oneshot::Sender<Result<(), Trouble>>,
}

/// Why no notifications arrive.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    /// A pooler stands in between.
    Pooled,
    Broken(String),
}

/// The claims of a client that listen. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Hubs {
    /// Waiting claims, by the name that they wait for.
    pub(super) waiters: Hub,
    /// Holding claims, by their owner.
    pub(super) holders: Hub,
}

impl Hubs {
    fn are_empty(&self) -> bool {
        self.waiters.is_empty() && self.holders.is_empty()
    }

    fn wake_all(&self) {
        self.waiters.wake_all();
        self.holders.wake_all();
    }
}

/// The table whose releases and revokes are notified at present. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct ListenedTable(Arc<Mutex<Option<i64>>>);

impl ListenedTable {
    pub(super) fn is(&self, table: i64) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == Some(table)
    }

    pub(super) fn is_any(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sets the table, and returns the one before.
    fn set(&self, table: Option<i64>) -> Option<i64> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), table)
    }
}

/// Listens for all claims of a client, from the first listen until the client is dropped.
#[derive(Debug)]
pub(super) struct Feed {
    sessions: Arc<Sessions>,
    prefix: Prefix,
    clock: Clock,
    random: Random,
    patience: Duration,
    hubs: Hubs,
    listened: ListenedTable,
    requests: mpsc::UnboundedReceiver<ListenRequest>,
}

/// The table to listen to, and the claims that wait for that.
#[derive(Default)]
struct Wanted {
    table: Option<i64>,
    replies: Vec<oneshot::Sender<Result<(), Trouble>>>,
}

impl Wanted {
    /// The newest request that names a table has the most recent knowledge of it.
    fn add(&mut self, request: ListenRequest) {
        self.table = request.table.or(self.table);
        self.replies.push(request.reply);
    }

    fn answer(&mut self, outcome: &Result<(), Trouble>) {
        for reply in self.replies.drain(..) {
            // The claim may have stopped waiting for the answer.
            let _: Result<(), _> = reply.send(outcome.clone());
        }
    }
}

/// Why the task stopped using a connection.
enum Left {
    /// The client was dropped.
    Ended,
    Trouble(Trouble),
}

impl Feed {
    pub(super) fn new(
        sessions: Arc<Sessions>,
        prefix: Prefix,
        context: Context,
        hubs: Hubs,
        listened: ListenedTable,
        requests: mpsc::UnboundedReceiver<ListenRequest>,
    ) -> Feed {
        let Context { clock, random, patience, .. } = context;
        Feed { sessions, prefix, clock, random, patience, hubs, listened, requests }
    }

    pub(super) async fn run(mut self) {
        let mut wanted = Wanted::default();
        let mut pause = FIRST_PAUSE;
        loop {
            if wanted.replies.is_empty() && self.hubs.are_empty() {
                let Some(request) = self.requests.recv().await else { return };
                wanted.add(request);
            }
            let trouble = match self.connect().await {
                Ok(mut listener) => {
                    pause = FIRST_PAUSE;
                    match self.feed(&mut listener, &mut wanted).await {
                        Left::Ended => return,
                        Left::Trouble(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            wanted.answer(&Err(trouble));
            if self.listened.set(None).is_some() {
                // No notification arrives from now on, so all claims that listen must look.
                self.hubs.wake_all();
            }
            if !self.wait_before_retry(pause, &mut wanted).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a connection of its own: sqlx passes notifications only to a listener, and creates a listener only from a
    /// pool.
    async fn connect(&self) -> Result<PgListener, Trouble> {
        let (options, mark) = self.sessions.greeting();
        let Some(mark) = mark else { return Err(Trouble::Pooled) };
        let connecting = async {
            let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(self.patience);
            let pool = pool
                .max_lifetime(None)
                .idle_timeout(None)
                .test_before_acquire(false)
                .connect_lazy_with(options);
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.eager_reconnect(false);
            let own = self.sessions.is_own(&mut listener, &mark).await?;
            Ok((listener, own))
        };
        match self.clock.timeout(self.patience, connecting).await {
            Some(Ok((listener, true))) => Ok(listener),
            Some(Ok((_, false))) => {
                self.sessions.learn_pooled();
                Err(Trouble::Pooled)
            }
            Some(Err(e)) if errors::is_unknown_parameter(&e) => {
                self.sessions.learn_pooled();
                Err(Trouble::Pooled)
            }
            Some(Err(e)) => Err(Trouble::Broken(errors::connecting(e).message().to_owned())),
            None => Err(Trouble::Broken(format!("no connection for wake-ups within {:?}", self.patience))),
        }
    }

    /// Wakes claims by the notifications of one connection, until it breaks.
    async fn feed(&mut self, listener: &mut PgListener, wanted: &mut Wanted) -> Left {
        let mut channel = None;
        // The connection may lead to another server, or the table may have been created anew.
        wanted.table = None;
        let mut heartbeat = self.clock.now() + HEARTBEAT;
        loop {
            if let Err(trouble) = self.listen(listener, wanted, &mut channel).await {
                return Left::Trouble(trouble);
            }
            let outcome = tokio::select! {
                biased;
                message = listener.try_recv() => self.receive(message),
                request = self.requests.recv() => match request {
                    Some(request) => {
                        wanted.add(request);
                        Ok(())
                    }
                    None => return Left::Ended,
                },
                () = self.clock.sleep_until(heartbeat) => {
                    heartbeat = self.clock.now() + HEARTBEAT;
                    self.heartbeat(listener, wanted).await
                }
            };
            if let Err(trouble) = outcome {
                return Left::Trouble(trouble);
            }
        }
    }

    /// Listens to the wanted table, and answers the claims that wait for that.
    async fn listen(
        &self,
        listener: &mut PgListener,
        wanted: &mut Wanted,
        channel: &mut Option<i64>,
    ) -> Result<(), Trouble> {
        let table = match wanted.table {
            Some(table) => table,
            None => self.table(listener).await?,
        };
        wanted.table = Some(table);
        if *channel != Some(table) {
            self.bounded(listener.unlisten_all()).await?;
            self.bounded(listener.listen(&payload::channel(table))).await?;
            *channel = Some(table);
            self.listened.set(Some(table));
            // Notifications that were sent before this were not received.
            self.hubs.wake_all();
        }
        wanted.answer(&Ok(()));
        Ok(())
    }

    /// Reads the number of the table on this connection, because a renewal may need the other ones.
    async fn table(&self, listener: &mut PgListener) -> Result<i64, Trouble> {
        let mut table = None;
        self.bounded(async {
            let row = listener.fetch_one(sqlx::raw_sql(AssertSqlSafe(self.sessions.which_table()))).await?;
            table = row.try_get(0)?;
            Ok(())
        })
        .await?;
        table.ok_or_else(|| Trouble::Broken("the table of locks is gone".to_owned()))
    }

    fn receive(&self, message: sqlx::Result<Option<PgNotification>>) -> Result<(), Trouble> {
        match message {
            Ok(Some(message)) => {
                if let Some(owner) = payload::revoked(message.payload()) {
                    self.hubs.holders.wake(owner);
                } else if let Some(name) = payload::read(message.payload(), &self.prefix) {
                    self.hubs.waiters.wake(&name);
                }
                Ok(())
            }
            Ok(None) => Err(Trouble::Broken("the connection for wake-ups broke".to_owned())),
            Err(e) => Err(Trouble::Broken(errors::connecting(e).message().to_owned())),
        }
    }

    /// Checks that the connection still works, and that the table is still the same. Without this check, claims would
    /// wait for ever on a broken connection, or for a table that was created anew.
    async fn heartbeat(&self, listener: &mut PgListener, wanted: &mut Wanted) -> Result<(), Trouble> {
        if !self.hubs.are_empty() {
            wanted.table = Some(self.table(listener).await?);
        }
        Ok(())
    }

    async fn bounded(&self, request: impl Future<Output = sqlx::Result<()>>) -> Result<(), Trouble> {
        match self.clock.timeout(self.patience, request).await {
            Some(Ok(())) => Ok(()),
            Some(Err(e)) => Err(Trouble::Broken(errors::connecting(e).message().to_owned())),
            None => Err(Trouble::Broken(format!(
                "no answer to the connection for wake-ups within {:?}",
                self.patience
            ))),
        }
    }

    /// Waits before the next connection, and accepts requests meanwhile. Returns `false` if the client was dropped.
    async fn wait_before_retry(&mut self, pause: Duration, wanted: &mut Wanted) -> bool {
        let until = self.clock.now() + pause / 2 + self.random.up_to(pause / 2);
        loop {
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    Some(request) => wanted.add(request),
                    None => return false,
                },
                () = self.clock.sleep_until(until) => return true,
            }
        }
    }
}
