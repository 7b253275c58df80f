//! PostgreSQL, with sqlx 0.8: another version than the one that onelock uses.

use std::error::Error;

use sqlx::{Connection, PgConnection};

use crate::{Outcome, Write, block_on};

pub fn run(write: &Write<'_>) -> Result<Outcome, Box<dyn Error>> {
    block_on(async {
        let mut connection = PgConnection::connect(write.database).await?;
        let mut transaction = connection.begin().await?;
        let accept = sqlx::query_scalar(write.accept).bind(write.resource.as_bytes()).bind(write.token);
        let highest: i64 = accept.fetch_one(&mut *transaction).await?;
        if highest > write.token {
            transaction.rollback().await?;
            return Ok(Outcome::Stale { highest });
        }
        sqlx::query(write.write).execute(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(Outcome::Accepted)
    })
}
