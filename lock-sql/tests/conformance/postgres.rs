//! PostgreSQL under the suite.

mod statements;

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::servers::{
    self, Absence, Clock, Owned, Persistence, Program, Server, Settings, catalogue,
};
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Step, Verdict};
use lock_core::{Client, Name, Options, Result};
use lock_sql::postgres;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Executor};

fn main() -> Verdict {
    // Nothing kills it: what it writes would only cost time.
    let settings = Settings { persistence: Persistence::None, ..Settings::default() };
    match Server::find_or_start(&servers::Postgres::Installed, &settings) {
        Ok(server) => {
            statements::count();
            lock_conformance::run(Postgres { server })
        }
        Err(Absence::NotRun(why)) => lock_conformance::not_run("postgres", &why),
        Err(Absence::Failure(why)) => lock_conformance::failed("postgres", &why),
    }
}

#[derive(Debug)]
struct Postgres {
    server: Server,
}

#[async_trait]
impl Harness for Postgres {
    fn name(&self) -> String {
        self.server.to_string()
    }

    /// A client whose statements are told to `statements`: that is sqlx' default.
    async fn open(&self, options: Options) -> Result<Client> {
        open(options_of(self.server.url()), options).await
    }

    /// A connection is a process of the server's, which takes its time to start.
    fn ttl(&self) -> Duration {
        Duration::from_millis(600)
    }

    fn can(&self, need: Need) -> Result<(), String> {
        match need {
            Need::Forget | Need::Counters | Need::Residue => Ok(()),
            Need::Process if cfg!(unix) => Ok(()),
            Need::Proxy if options_of(self.server.url()).get_socket().is_none() => Ok(()),
            Need::Proxy => Err("not by TCP: no proxy can stand in between".to_owned()),
            Need::ServerClock if self.server.owned().is_some() => servers::clock::can_be_set(),
            Need::Program => Program::find().map(drop).map_err(|absence| absence.to_string()),
            Need::Interrupt | Need::OwnServer | Need::Durable if self.server.owned().is_some() => Ok(()),
            _ => Err(format!("the server was not started here: the suite does not {need}")),
        }
    }

    fn url(&self) -> String {
        self.server.url().to_owned()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![(catalogue::POSTGRES.variable, self.url())]
    }

    fn address(&self) -> String {
        address(self.server.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open(through(self.server.url(), address), options).await
    }

    async fn forget(&self, name: &Name) {
        let forget = "UPDATE onelock_locks SET owner = '', expires = 0 WHERE name = $1";
        let forget = sqlx::query(forget).bind(name.as_str().as_bytes().to_vec());
        forget.execute(&mut self.admin().await).await.expect("UPDATE");
    }

    /// Each transaction that writes has a number; the next one is known.
    async fn counters(&self) -> Counters {
        let next: i64 = sqlx::query_scalar("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            .fetch_one(&mut self.admin().await)
            .await
            .expect("SELECT");
        Counters { requests: statements::counted().requests, writes: next.unsigned_abs() }
    }

    async fn residue(&self) -> u64 {
        let held = "SELECT count(*) FROM onelock_locks WHERE octet_length(owner) > 0";
        let count: i64 = sqlx::query_scalar(held).fetch_one(&mut self.admin().await).await.expect("SELECT");
        count.unsigned_abs()
    }

    async fn interrupt(&self) {
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        self.admin().await.execute(kill).await.expect("pg_terminate_backend");
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        own(Settings { persistence: Persistence::EveryWrite, ..Settings::default() })
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        // It is never started again: what it writes would only cost time.
        own(Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() })
    }
}

impl Postgres {
    async fn admin(&self) -> PgConnection {
        let options = options_of(self.server.url()).disable_statement_logging();
        options.connect().await.expect("the server is up")
    }
}

async fn open(server: PgConnectOptions, options: Options) -> Result<Client> {
    postgres::Postgres::from(server).open(options).await
}

fn options_of(url: &str) -> PgConnectOptions {
    url.parse().expect("a URL that was used before")
}

fn address(url: &str) -> String {
    let options = options_of(url);
    format!("{}:{}", options.get_host(), options.get_port())
}

fn through(url: &str, address: SocketAddr) -> PgConnectOptions {
    options_of(url).host(&address.ip().to_string()).port(address.port())
}

fn own(settings: Settings) -> Box<dyn OwnServer> {
    Box::new(Own(Owned::start(&servers::Postgres::Installed, &settings).expect("another was started before")))
}

#[derive(Debug)]
struct Own(Owned);

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        open(options_of(self.0.url()), options).await
    }

    fn pause(&mut self) {
        self.0.pause().expect("it runs");
    }

    fn resume(&mut self) {
        self.0.resume().expect("it was paused");
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
    }

    fn start(&mut self, data: Data) {
        self.0.restart(data).expect("it starts again");
    }

    fn step_clock(&mut self, step: Step) {
        self.0.step_clock(step).expect("its clock can be set");
    }

    fn address(&self) -> String {
        address(self.0.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open(through(self.0.url(), address), options).await
    }
}
