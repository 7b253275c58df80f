//! sqlx on PostgreSQL, with prepared statements, on as many connections as the library has.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::Owner;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgListener, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Executor};

use super::{Calls, Connections, Driver, NOT_SUBSCRIBED, PLACE};
use crate::Outcome;
use crate::raw::sql;
use crate::subjects::TTL;

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

pub(super) struct Server {
    options: PgConnectOptions,
    connections: Arc<Connections<PgConnection>>,
}

impl Server {
    pub(super) async fn connect(url: &str) -> Outcome<Server> {
        let (options, mut connections) = (sql::postgres(url)?, Vec::new());
        for _ in 0..sql::connections(url)? {
            connections.push(options.connect().await?);
        }
        let connections = Arc::new(Connections::new(connections));
        (&mut *connections.borrow().await.0).execute(TABLE).await?;
        Ok(Server { options, connections })
    }
}

#[async_trait]
impl Driver for Server {
    type Calls = Named;

    async fn named(&self, name: &str) -> Outcome<Named> {
        let (options, connections) = (self.options.clone(), self.connections.clone());
        Ok(Named { options, connections, name: name.as_bytes().to_vec(), listener: None })
    }
}

pub(super) struct Named {
    options: PgConnectOptions,
    connections: Arc<Connections<PgConnection>>,
    name: Vec<u8>,
    listener: Option<PgListener>,
}

impl Named {
    async fn ask(&self, statement: Query<'_, sqlx::Postgres, PgArguments>) -> Outcome<Vec<PgRow>> {
        let (mut connection, _permit) = self.connections.borrow().await;
        Ok(statement.fetch_all(&mut *connection).await?)
    }
}

#[async_trait]
impl Calls for Named {
    async fn subscribe(&mut self) -> Outcome<()> {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.options.clone());
        self.listener.insert(PgListener::connect_with(&pool).await?).listen(PLACE).await?;
        Ok(())
    }

    async fn take(&mut self, owner: &Owner) -> Outcome<bool> {
        let take = sqlx::query(TAKE).bind(&self.name).bind(&owner.as_bytes()[..]).bind(TTL.as_secs_f64());
        Ok(!self.ask(take).await?.is_empty())
    }

    async fn mark(&mut self) -> Outcome<()> {
        self.ask(sqlx::query(MARK).bind(&self.name)).await.map(drop)
    }

    async fn released(&mut self) -> Outcome<()> {
        let listener = self.listener.as_mut().ok_or(NOT_SUBSCRIBED)?;
        let name: String = self.name.iter().map(|byte| format!("{byte:02x}")).collect();
        while listener.recv().await?.payload() != name {}
        Ok(())
    }

    async fn release(&mut self, owner: &Owner) -> Outcome<bool> {
        let release = sqlx::query(RELEASE).bind(&self.name).bind(&owner.as_bytes()[..]);
        Ok(!self.ask(release).await?.is_empty())
    }
}
