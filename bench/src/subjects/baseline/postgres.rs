//! sqlx on PostgreSQL, with prepared statements, on as many connections as the library has.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::Owner;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Executor};

use super::connections::Connections;
use super::{Calls, PLACE, Pushes, side, worker};
use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS lock_bench_baseline (name bytea PRIMARY KEY, owner bytea NOT NULL, \
                     token bigint NOT NULL, expires timestamptz NOT NULL, waiting timestamptz NOT NULL DEFAULT '-infinity')";
/// Name, owner, ttl in seconds.
const TAKE: &str = "
INSERT INTO lock_bench_baseline AS l (name, owner, token, expires)
VALUES ($1, $2, 1, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = l.token + 1, expires = excluded.expires
WHERE l.expires <= clock_timestamp() RETURNING token";
/// Name.
const MARK: &str = "
UPDATE lock_bench_baseline SET waiting = clock_timestamp() + interval '20 s'
WHERE name = $1 AND waiting < clock_timestamp() + interval '10 s'";
/// Name, owner. All transactions that notify take one lock of the server: so it notifies only if a client waits.
const RELEASE: &str = "
UPDATE lock_bench_baseline SET owner = '', expires = '-infinity' WHERE name = $1 AND owner = $2
RETURNING CASE WHEN waiting > clock_timestamp() THEN pg_notify('lock_bench_baseline', encode($1, 'hex')) IS NULL END";

pub(super) struct Baseline {
    options: PgConnectOptions,
    connections: Arc<Connections<PgConnection>>,
}

impl Baseline {
    pub(super) async fn connect(url: &str) -> Outcome<Baseline> {
        let (options, mut connections) = (raw::postgres::options(url)?, Vec::new());
        for _ in 0..raw::connections_of(url)? {
            connections.push(options.connect().await?);
        }
        let connections = Arc::new(Connections::new(connections));
        (&mut *connections.borrow().await).execute(TABLE).await?;
        Ok(Baseline { options, connections })
    }

    fn named(&self, name: &str) -> Named {
        Named { connections: self.connections.clone(), name: name.as_bytes().to_vec() }
    }
}

#[async_trait]
impl Subject for Baseline {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(worker(self.named(name)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(PLACE).await?;
        let payload = name.bytes().map(|byte| format!("{byte:02x}")).collect();
        Ok(side(Arc::new(self.named(name)), Box::new(Notifications { listener, payload })))
    }
}

struct Named {
    connections: Arc<Connections<PgConnection>>,
    name: Vec<u8>,
}

impl Named {
    async fn ask(&self, statement: Query<'_, sqlx::Postgres, PgArguments>) -> Outcome<Vec<PgRow>> {
        Ok(statement.fetch_all(&mut *self.connections.borrow().await).await?)
    }
}

#[async_trait]
impl Calls for Named {
    type Claim = Vec<u8>;

    fn claim(&self, owner: Owner) -> Vec<u8> {
        owner.as_bytes().to_vec()
    }

    async fn take(&self, owner: &mut Vec<u8>) -> Outcome<bool> {
        let take = sqlx::query(TAKE).bind(&self.name).bind(&*owner).bind(TTL.as_secs_f64());
        Ok(!self.ask(take).await?.is_empty())
    }

    async fn mark(&self) -> Outcome<()> {
        self.ask(sqlx::query(MARK).bind(&self.name)).await.map(drop)
    }

    async fn release(&self, owner: &mut Vec<u8>) -> Outcome<bool> {
        Ok(!self.ask(sqlx::query(RELEASE).bind(&self.name).bind(&*owner)).await?.is_empty())
    }
}

struct Notifications {
    listener: PgListener,
    /// The payload of notifications for our name.
    payload: String,
}

#[async_trait]
impl Pushes for Notifications {
    async fn next(&mut self) -> Outcome<()> {
        while self.listener.recv().await?.payload() != self.payload {}
        Ok(())
    }
}
