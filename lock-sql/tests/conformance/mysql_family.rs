//! MySQL and MariaDB under the suite.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::servers::{
    self, Absence, Clock, Owned, Persistence, Product, Program, Server, Settings,
};
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Step, Verdict};
use lock_core::{Client, Name, Options, Result};
use lock_sql::mysql::MySql;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};

use crate::statements;

pub(crate) fn main(product: &'static servers::MySql) -> Verdict {
    let name = product.listing().name;
    match Server::find(product) {
        Ok(server) => {
            statements::count();
            lock_conformance::run(Tested { product, server })
        }
        Err(Absence::NotRun(why)) => lock_conformance::not_run(name, &why),
        Err(Absence::Failure(why)) => lock_conformance::failed(name, &why),
    }
}

#[derive(Debug)]
struct Tested {
    product: &'static servers::MySql,
    server: Server,
}

#[async_trait]
impl Harness for Tested {
    fn name(&self) -> String {
        self.server.to_string()
    }

    /// A client whose statements are told to `statements`: that is sqlx' default.
    async fn open(&self, options: Options) -> Result<Client> {
        MySql::from(options_of(self.server.url())).open(options).await
    }

    /// A new name takes three round trips and two commits on the disk.
    fn ttl(&self) -> Duration {
        Duration::from_millis(600)
    }

    /// Answers, that is: a new name is looked for, looked at, and gets its row and the grant in one packet.
    fn requests_per_attempt(&self) -> u32 {
        4
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
        vec![(self.product.listing().variable, self.url())]
    }

    fn address(&self) -> String {
        address(self.server.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open_through(self.server.url(), address, options).await
    }

    async fn forget(&self, name: &Name) {
        let forget = "UPDATE onelock_locks SET owner = '', expires = 0 WHERE name = ?";
        let forget = sqlx::query(forget).bind(name.as_str().as_bytes());
        forget.execute(&mut self.admin().await).await.expect("UPDATE");
    }

    /// Statements as sqlx tells them, and rows as the server counts them.
    async fn counters(&self) -> Counters {
        let changed = "SHOW GLOBAL STATUS WHERE Variable_name IN
            ('Innodb_rows_inserted', 'Innodb_rows_updated', 'Innodb_rows_deleted')";
        let rows = self.admin().await.fetch_all(changed).await.expect("SHOW STATUS");
        let count = |row: &sqlx::mysql::MySqlRow| row.get::<String, _>(1).parse::<u64>().expect("a number");
        Counters { requests: statements::counted().requests, writes: rows.iter().map(count).sum() }
    }

    async fn residue(&self) -> u64 {
        let held = "SELECT count(*) FROM onelock_locks WHERE owner <> ''";
        let count: i64 = sqlx::query_scalar(held).fetch_one(&mut self.admin().await).await.expect("SELECT");
        count.unsigned_abs()
    }

    async fn interrupt(&self) {
        let mut admin = self.admin().await;
        let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
            WHERE id <> CONNECTION_ID() AND user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";
        let others: Vec<i64> = sqlx::query_scalar(others).fetch_all(&mut admin).await.expect("SELECT");
        for id in others {
            // It may have gone by itself.
            admin.execute(AssertSqlSafe(format!("KILL {id}"))).await.ok();
        }
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        self.own(Settings { persistence: Persistence::EveryWrite, ..Settings::default() })
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        // It is never started again: what it writes would only cost time.
        self.own(Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() })
    }
}

impl Tested {
    async fn admin(&self) -> MySqlConnection {
        let options = options_of(self.server.url()).disable_statement_logging();
        options.connect().await.expect("the server is up")
    }

    fn own(&self, settings: Settings) -> Box<dyn OwnServer> {
        Box::new(Own(Owned::start(self.product, &settings).expect("another was started before")))
    }
}

fn options_of(url: &str) -> MySqlConnectOptions {
    url.parse().expect("a URL that was used before")
}

fn address(url: &str) -> String {
    let options = options_of(url);
    format!("{}:{}", options.get_host(), options.get_port())
}

/// Without TLS, so that the proxy sees what it loses.
async fn open_through(url: &str, address: SocketAddr, options: Options) -> Result<Client> {
    let through = options_of(url).host(&address.ip().to_string()).port(address.port());
    MySql::from(through.ssl_mode(sqlx::mysql::MySqlSslMode::Disabled)).open(options).await
}

#[derive(Debug)]
struct Own(Owned);

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        MySql::from(options_of(self.0.url())).open(options).await
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
        open_through(self.0.url(), address, options).await
    }
}
