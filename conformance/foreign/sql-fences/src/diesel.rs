//! SQLite, with diesel. Its driver for PostgreSQL needs libpq, which is not everywhere.

use std::error::Error;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::{BigInt, Binary};
use diesel::{SqliteConnection, sql_query};

use crate::{Outcome, Write};

/// The answer of the fence's statement.
#[derive(QueryableByName)]
struct Highest {
    #[diesel(sql_type = BigInt)]
    token: i64,
}

pub fn run(write: &Write<'_>) -> Result<Outcome, Box<dyn Error>> {
    let mut connection = SqliteConnection::establish(write.database)?;
    // Other connections may have the file for a moment, also while they are closed.
    connection.batch_execute("PRAGMA busy_timeout = 10000")?;
    let mut stale = None;
    let done = connection.immediate_transaction(|connection| {
        let accept = sql_query(write.accept);
        let accept = accept.bind::<Binary, _>(write.resource.as_bytes()).bind::<BigInt, _>(write.token);
        let highest = accept.get_result::<Highest>(connection)?.token;
        if highest > write.token {
            stale = Some(highest);
            return Err(DieselError::RollbackTransaction);
        }
        sql_query(write.write).execute(connection)?;
        Ok(())
    });
    match (done, stale) {
        (Ok(()), _) => Ok(Outcome::Accepted),
        (Err(_), Some(highest)) => Ok(Outcome::Stale { highest }),
        (Err(error), None) => Err(error.into()),
    }
}
