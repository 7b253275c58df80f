//! Runs the conformance suite on SQLite, with files in a temporary folder.

#[path = "conformance/database.rs"]
mod database;
#[path = "conformance/own.rs"]
mod own;
#[path = "conformance/statements.rs"]
mod statements;

use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::servers::{Absence, Program};
use lock_conformance::{Counters, Harness, Need, OwnServer, Verdict};
use lock_core::{Client, Name, Options, Result};

use database::Database;

fn main() -> Verdict {
    statements::count();
    lock_conformance::run(Sqlite { database: Database::of_this_process() })
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
            Need::Forget | Need::Counters | Need::Residue | Need::Age => Ok(()),
            Need::OwnServer | Need::Durable => Ok(()),
            Need::Program | Need::OwnProgram => Program::find().map(drop).map_err(Absence::reason),
            Need::Process if cfg!(unix) => Ok(()),
            Need::Process => Err("another process is started on Unix only".to_owned()),
            Need::ServerClock if cfg!(target_os = "linux") => {
                Err("leases end by the kernel's clock since boot, which can't be set".to_owned())
            }
            Need::ServerClock => Err("a test must not set the machine's wall clock".to_owned()),
            Need::Proxy | Need::Replay | Need::OneTrip | Need::IdleConnection | Need::Interrupt => {
                Err(format!("a file has no network: the suite does not {need}"))
            }
        }
    }

    fn url(&self) -> String {
        self.database.url()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![(database::ENVIRONMENT, self.database.path().display().to_string())]
    }

    async fn forget(&self, name: &Name) {
        let forget = "UPDATE onelock_locks SET owner = x'', expires = 0 WHERE name = ? AND owner <> x''";
        let mut admin = self.database.admin().await;
        let forget = sqlx::query(forget).bind(name.as_str().as_bytes());
        let forgot = forget.execute(&mut admin).await.expect("UPDATE");
        assert_eq!(forgot.rows_affected(), 1, "{name} was held");
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

    async fn kept(&self) -> u64 {
        let rows = "SELECT count(*) FROM onelock_locks";
        let count: i64 =
            sqlx::query_scalar(rows).fetch_one(&mut self.database.admin().await).await.expect("SELECT");
        count.unsigned_abs()
    }

    async fn age(&self, by: Duration) {
        let age = "UPDATE onelock_locks SET token = max(1, token - ?)";
        let by = i64::try_from(by.as_micros()).expect("days");
        sqlx::query(age).bind(by).execute(&mut self.database.admin().await).await.expect("UPDATE");
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        Box::new(own::Own::new())
    }
}
