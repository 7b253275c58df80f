//! A pooler in front of PostgreSQL shares connections.

use lock_test_servers::{Owned, PgBouncer, Postgres, Settings};
use sqlx::{Connection, PgConnection, Row};

use crate::{Failure, Stop, subjects};

pub(crate) fn shares() -> Result<(), Stop> {
    let postgres = Owned::start(&Postgres::Installed, &Settings::default())?;
    let pooler = PgBouncer::before(&postgres, &Settings::default())?;
    assert!(pooler.version().starts_with("pgbouncer 1."), "{}", pooler.version());
    let shared: Result<(), Failure> = subjects::runtime()?.block_on(async {
        let mut one = PgConnection::connect(pooler.url()).await?;
        let mut other = PgConnection::connect(pooler.url()).await?;
        let behind = process(&mut one).await?;
        assert_eq!(process(&mut other).await?, behind, "without a transaction they need only one");
        sqlx::raw_sql("BEGIN").execute(&mut one).await?;
        let taken = process(&mut one).await?;
        assert_ne!(process(&mut other).await?, taken, "a transaction has a connection for itself");
        Ok(())
    });
    Ok(shared?)
}

/// Returns the id of the server's process that answers.
async fn process(client: &mut PgConnection) -> Result<i32, Failure> {
    // No prepared statement: the next transaction may meet another connection, which doesn't know it.
    let row = sqlx::raw_sql("SELECT pg_backend_pid()").fetch_one(client).await?;
    Ok(row.try_get_unchecked(0)?)
}
