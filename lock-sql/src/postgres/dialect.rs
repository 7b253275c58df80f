//! PostgreSQL's dialect, for the pool.

use std::sync::Arc;

use lock_core::Result;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::errors;
use super::session::{Session, SessionKind, Sessions};
use super::statement::{Form, Statement};
use crate::server::{Answer, Dialect, LockWait, Opened, Trouble};

/// PostgreSQL.
#[derive(Debug)]
pub(crate) struct PostgresDialect {
    pub(crate) sessions: Arc<Sessions>,
}

impl Dialect for PostgresDialect {
    type Connection = Session;
    type Statement = Statement;
    type Row = PgRow;

    async fn connect(&self, lock_wait: LockWait) -> Result<Opened<Session>> {
        self.sessions.open(lock_wait).await
    }

    async fn run(session: &mut Session, statement: Statement) -> sqlx::Result<Answer<PgRow>> {
        let rows = match (session.kind, statement.form) {
            (SessionKind::Own, Form::One) => statement.prepared().fetch_all(&mut session.connection).await?,
            _ => statement.run_whole(session.preface(), &mut session.connection).await?,
        };
        // The server's time is the first column of every answer.
        let now = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(Answer { last_insert_id: 0, now, rows })
    }

    fn trouble(error: sqlx::Error) -> Trouble {
        errors::asking(error)
    }
}
