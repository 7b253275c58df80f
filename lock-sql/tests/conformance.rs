//! SQLite under the suite, on files in a temporary folder.

#[path = "conformance/database.rs"]
mod database;
#[path = "conformance/own.rs"]
mod own;
#[path = "conformance/statements.rs"]
mod statements;

use async_trait::async_trait;
use lock_conformance::servers::Program;
use lock_conformance::{Counters, Harness, Need, OwnServer, Verdict};
use lock_core::{Client, Name, Options, Result};

use database::Database;

fn main() -> Verdict {
    statements::count();
    lock_conformance::run(Sqlite { database: Database::new() })
}

#[derive(Debug)]
struct Sqlite {
    database: Database,
}

#[async_trait]
impl Harness for Sqlite {
    fn name(&self) -> String {
        format!("sqlite {}", self.database.path().display())
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.database.open(options).await
    }

    fn can(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Forget | Need::Counters | Need::Residue | Need::OwnServer | Need::Durable => Ok(()),
            Need::Program => Program::find().map(drop).map_err(|absence| absence.to_string()),
            Need::Proxy | Need::Interrupt => Err(format!("a file has no network: the suite does not {need}")),
        }
    }

    fn url(&self) -> String {
        self.database.url()
    }

    async fn forget(&self, name: &Name) {
        let forget = "UPDATE onelock_locks SET owner = x'', expires = 0 WHERE name = ?";
        let mut admin = self.database.admin().await;
        sqlx::query(forget).bind(name.as_str().as_bytes()).execute(&mut admin).await.expect("UPDATE");
    }

    async fn counters(&self) -> Counters {
        statements::counted()
    }

    async fn residue(&self) -> u64 {
        let held = "SELECT count(*) FROM onelock_locks WHERE length(owner) > 0";
        let count: i64 =
            sqlx::query_scalar(held).fetch_one(&mut self.database.admin().await).await.expect("SELECT");
        count.unsigned_abs()
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        Box::new(own::Own::new())
    }
}
