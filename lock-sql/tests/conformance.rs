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
    Age, Count, Durable, Forget, Identity, KeepBusy, LockProgram, OwnServer, OwnServers, Processes, Promise,
    Residue, Rises, ServerClocks, ToldTime,
};
use lock_conformance::{Ability, Counters, Harness, Missing, Verdict};
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

    /// A fork has copies of SQLite's mutexes.
    fn opens_in_forks(&self) -> bool {
        false
    }

    /// docs/semantics.md has the hour: how far the clock may be set back.
    fn promised(&self) -> Vec<Promise> {
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let identity = if cfg!(unix) { Identity::Told } else { Identity::NotPromised };
        vec![Promise { lease: Lease::Lock, fair: Fair::No, rises, identity }]
    }

    fn missing(&self, what: &str) -> Missing {
        Missing::because(format!("a file has no network: the suite does not {what}"))
    }

    fn tells_its_time(&self) -> Result<ToldTime, Missing> {
        Ok(ToldTime)
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        Ok(self)
    }

    fn can_count(self: Arc<Self>) -> Ability<dyn Count> {
        Ok(self)
    }

    fn can_keep_busy(self: Arc<Self>) -> Ability<dyn KeepBusy> {
        let why = "a file has one lock for all writes: what keeps one name busy keeps all of them busy";
        Err(Missing::because(why))
    }

    fn can_count_residue(self: Arc<Self>) -> Ability<dyn Residue> {
        Ok(self)
    }

    fn can_age(self: Arc<Self>) -> Ability<dyn Age> {
        Ok(self)
    }

    fn can_start_servers(self: Arc<Self>) -> Ability<dyn OwnServers> {
        Ok(self)
    }

    fn keeps_data(&self) -> Result<Durable, Missing> {
        Ok(Durable)
    }

    fn can_set_clocks(self: Arc<Self>) -> Ability<dyn ServerClocks> {
        Err(Missing::because(match cfg!(target_os = "linux") {
            true => "leases end by the kernel's clock since boot, which can't be set",
            false => "a test must not set the machine's wall clock",
        }))
    }

    fn can_start_processes(self: Arc<Self>) -> Ability<dyn Processes> {
        let path = self.database.path().display().to_string();
        ThisProgram::again(vec![(database::ENVIRONMENT, path)])
    }

    fn can_run_program(self: Arc<Self>) -> Ability<dyn LockProgram> {
        Program::on(self.database.url())
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
