//! PostgreSQL, with tokio-postgres.

use std::error::Error;

use tokio_postgres::NoTls;

use crate::{Outcome, Write, block_on};

pub fn run(write: &Write<'_>) -> Result<Outcome, Box<dyn Error>> {
    block_on(async {
        let (mut client, connection) = tokio_postgres::connect(write.database, NoTls).await?;
        tokio::spawn(connection);
        let transaction = client.transaction().await?;
        let accepted =
            transaction.query_one(write.accept, &[&write.resource.as_bytes(), &write.token]).await?;
        let highest: i64 = accepted.get(0);
        if highest > write.token {
            transaction.rollback().await?;
            return Ok(Outcome::Stale { highest });
        }
        transaction.execute(write.write, &[]).await?;
        transaction.commit().await?;
        Ok(Outcome::Accepted)
    })
}
