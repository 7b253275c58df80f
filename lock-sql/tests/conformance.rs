//! Runs the conformance suite on SQLite, with files in a temporary folder.

#[path = "conformance/database.rs"]
mod database;
#[path = "conformance/own.rs"]
mod own;
#[path = "conformance/statements.rs"]
mod statements;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, Count, Forget, Identity, OwnServer, OwnServers, Promise, Residue, Rises, ToldTime,
};
use lock_conformance::{Abilities, Counters, Facts, Harness, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_test_servers::{Program, ThisProgram};

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

    fn facts(&self) -> Facts {
        // docs/semantics.md has the hour: how far the clock may be set back.
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let identity = if cfg!(unix) { Identity::Told } else { Identity::NotPromised };
        Facts {
            // A fork has copies of SQLite's mutexes.
            opens_in_forks: false,
            told_time: Ok(ToldTime),
            ..Facts::promising([Promise { lease: Lease::Lock, fair: Fair::No, rises, identity }])
        }
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        let keep_busy = "a file has one lock for all writes: what keeps one name busy keeps all of them busy";
        let clocks = match cfg!(target_os = "linux") {
            true => "leases end by the kernel's clock since boot, which can't be set",
            false => "a test must not set the machine's wall clock",
        };
        let path = self.database.path().display().to_string();
        Abilities {
            forget: Ok(self.clone()),
            count: Ok(self.clone()),
            residue: Ok(self.clone()),
            age: Ok(self.clone()),
            keep_busy: Err(Missing::because(keep_busy)),
            servers: Ok(self.clone()),
            clocks: Err(Missing::because(clocks)),
            processes: ThisProgram::again(vec![(database::ENVIRONMENT, path)]),
            program: Program::on(self.database.url()),
            ..Abilities::none("a file has no network: the suite does not")
        }
    }
}

#[async_trait]
impl Forget for Sqlite {
    async fn forget(&self, name: &Name) {
        let forget = "UPDATE onelock_locks SET owner = x'', expires = 0 WHERE name = ? AND owner <> x''";
        let mut admin = self.database.admin().await;
        let forget = sqlx::query(forget).bind(name.as_str().as_bytes());
        let forgot = forget.execute(&mut admin).await.expect("UPDATE");
        assert_eq!(forgot.rows_affected(), 1, "{name} was held");
    }
}

#[async_trait]
impl Count for Sqlite {
    async fn counters(&self) -> Counters {
        statements::counted()
    }
}

#[async_trait]
impl Residue for Sqlite {
    async fn residue(&self) -> u64 {
        let held = "SELECT count(*) FROM onelock_locks WHERE length(owner) > 0";
        let count: i64 =
            sqlx::query_scalar(held).fetch_one(&mut self.database.admin().await).await.expect("SELECT");
        count.unsigned_abs()
    }
}

#[async_trait]
impl Age for Sqlite {
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
}

#[async_trait]
impl OwnServers for Sqlite {
    async fn start(&self) -> Box<dyn OwnServer> {
        Box::new(own::Own::new())
    }
}
