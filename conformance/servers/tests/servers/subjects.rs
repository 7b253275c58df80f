//! The products, and how these cases use them.

use std::env;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};

use lock_conformance::environment::RECORD;
use lock_test_servers::{Absence, MySql, Owned, Postgres, Product, Redis, Server, Settings};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, PgConnection};
use tokio::runtime::Runtime;

use crate::{Failure, LIMIT, containers};

/// The part that this program plays when a case starts it once more.
pub(crate) const PART: &str = "LOCK_TEST_SERVERS_PART";

/// A password that must not be shown anywhere.
pub(crate) const PASSWORD: &str = "secret";

pub(crate) const REDIS: &dyn Subject = &OnRedis;

pub(crate) const POSTGRES: &dyn Subject = &OnPostgres(&Postgres::Installed);

pub(crate) const ALL: &[&dyn Subject] =
    &[REDIS, POSTGRES, &OnPostgres(&Postgres::Unstable), &OnMySql(&MySql::MariaDb), &OnMySql(&MySql::MySql)];

/// A product under these cases.
pub(crate) trait Subject: Sync {
    fn product(&self) -> &'static dyn Product;

    /// Returns arguments that make [`Session::setting`] return 77.
    fn arguments(&self) -> &'static [&'static str];

    /// Returns what its log contains when it ended because it was asked to.
    fn goodbye(&self) -> &'static str;

    fn connect(&self, url: &str) -> Result<Box<dyn Session>, Failure>;

    /// Returns a URL of the same server that contains the [`PASSWORD`].
    fn with_password(&self, url: &str) -> Result<String, Failure>;

    /// Returns the image from which it can be started in a container.
    fn image(&self) -> Option<&'static str> {
        self.product().image(&Settings::default()).map(|image| image.name)
    }

    fn start(&self) -> Result<Owned, Absence> {
        Owned::start(self.product(), &Settings::default())
    }
}

/// A connection.
pub(crate) trait Session: Send {
    fn setting(&mut self) -> Result<String, Failure>;

    /// Stores something.
    fn store(&mut self) -> Result<(), Failure>;

    /// Returns whether it is stored.
    fn stored(&mut self) -> Result<bool, Failure>;
}

struct OnRedis;

impl Subject for OnRedis {
    fn product(&self) -> &'static dyn Product {
        &Redis
    }

    fn arguments(&self) -> &'static [&'static str] {
        &["--maxclients", "77"]
    }

    fn goodbye(&self) -> &'static str {
        "bye bye"
    }

    fn connect(&self, url: &str) -> Result<Box<dyn Session>, Failure> {
        Ok(Box::new(redis::Client::open(url)?.get_connection_with_timeout(LIMIT)?))
    }

    /// Redis takes any password for a user that needs none.
    fn with_password(&self, url: &str) -> Result<String, Failure> {
        Ok(url.replace("redis://", &format!("redis://default:{PASSWORD}@")))
    }
}

impl Session for redis::Connection {
    fn setting(&mut self) -> Result<String, Failure> {
        let (_, limit): (String, String) = redis::cmd("CONFIG").arg("GET").arg("maxclients").query(self)?;
        Ok(limit)
    }

    fn store(&mut self) -> Result<(), Failure> {
        Ok(redis::cmd("SET").arg("key").arg("value").exec(self)?)
    }

    fn stored(&mut self) -> Result<bool, Failure> {
        Ok(redis::cmd("EXISTS").arg("key").query(self)?)
    }
}

struct OnPostgres(&'static Postgres);

impl Subject for OnPostgres {
    fn product(&self) -> &'static dyn Product {
        self.0
    }

    fn arguments(&self) -> &'static [&'static str] {
        &["-c", "max_connections=77"]
    }

    fn goodbye(&self) -> &'static str {
        "database system is shut down"
    }

    fn connect(&self, url: &str) -> Result<Box<dyn Session>, Failure> {
        let runtime = runtime()?;
        let connection = runtime.block_on(PgConnection::connect(url))?;
        Ok(Box::new(Sql { runtime, connection }))
    }

    /// PostgreSQL does not ask for a password.
    fn with_password(&self, url: &str) -> Result<String, Failure> {
        Ok(url.replace("lock@", &format!("lock:{PASSWORD}@")))
    }
}

/// A connection, with the runtime that drives it.
struct Sql<C> {
    runtime: Runtime,
    connection: C,
}

impl Session for Sql<PgConnection> {
    fn setting(&mut self) -> Result<String, Failure> {
        let show = sqlx::query_scalar("SHOW max_connections").fetch_one(&mut self.connection);
        Ok(self.runtime.block_on(show)?)
    }

    fn store(&mut self) -> Result<(), Failure> {
        let create = sqlx::query("CREATE TABLE things (thing int)").execute(&mut self.connection);
        self.runtime.block_on(create)?;
        Ok(())
    }

    fn stored(&mut self) -> Result<bool, Failure> {
        let look = sqlx::query_scalar("SELECT to_regclass('things') IS NOT NULL");
        Ok(self.runtime.block_on(look.fetch_one(&mut self.connection))?)
    }
}

struct OnMySql(&'static MySql);

impl Subject for OnMySql {
    fn product(&self) -> &'static dyn Product {
        self.0
    }

    fn arguments(&self) -> &'static [&'static str] {
        &["--max-connections=77"]
    }

    fn goodbye(&self) -> &'static str {
        "Shutdown complete"
    }

    fn connect(&self, url: &str) -> Result<Box<dyn Session>, Failure> {
        let runtime = runtime()?;
        let connection = runtime.block_on(MySqlConnection::connect(url))?;
        Ok(Box::new(Sql { runtime, connection }))
    }

    fn with_password(&self, url: &str) -> Result<String, Failure> {
        let user = AssertSqlSafe(format!("CREATE USER other IDENTIFIED BY '{PASSWORD}'"));
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut connection = MySqlConnection::connect(url).await?;
            sqlx::query(user).execute(&mut connection).await?;
            sqlx::query("GRANT ALL ON *.* TO other").execute(&mut connection).await
        })?;
        Ok(url.replace("lock@", &format!("other:{PASSWORD}@")))
    }
}

impl Session for Sql<MySqlConnection> {
    fn setting(&mut self) -> Result<String, Failure> {
        let show = sqlx::query_scalar("SELECT CAST(@@max_connections AS CHAR)");
        Ok(self.runtime.block_on(show.fetch_one(&mut self.connection))?)
    }

    fn store(&mut self) -> Result<(), Failure> {
        let create = sqlx::query("CREATE TABLE things (thing int)").execute(&mut self.connection);
        self.runtime.block_on(create)?;
        Ok(())
    }

    fn stored(&mut self) -> Result<bool, Failure> {
        let look = "SELECT COUNT(*) = 1 FROM information_schema.tables \
                    WHERE table_schema = DATABASE() AND table_name = 'things'";
        Ok(self.runtime.block_on(sqlx::query_scalar(look).fetch_one(&mut self.connection))?)
    }
}

pub(crate) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Starts this program once more, to play a part for this product.
pub(crate) fn start(part: &str, subject: &dyn Subject, given: Option<&str>) -> io::Result<Child> {
    let mut command = command(part, subject)?;
    if let Some(url) = given {
        command.env(subject.product().listing().variable, url);
    }
    command.spawn()
}

/// Returns the command that starts it.
pub(crate) fn command(part: &str, subject: &dyn Subject) -> io::Result<Command> {
    let listing = subject.product().listing();
    let mut command = Command::new(env::current_exe()?);
    // A server that the part finds is not one that cases ran on.
    command.env_remove(RECORD).env(PART, format!("{part} {}", listing.name));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).env_remove(listing.variable);
    Ok(command)
}

/// Plays a part: what this program does when a case has started it once more.
pub(crate) fn play(part: &str) {
    let (part, name) = part.split_once(' ').expect("a part, and a product");
    let subject = ALL.iter().find(|subject| subject.product().listing().name == name);
    let subject = *subject.expect("a case names what it runs on");
    match part {
        "abandon" => abandon(subject),
        "abandon-paused" => abandon_paused(subject),
        "abandon-at-work" => abandon_at_work(),
        "given" => given(subject),
        "contained" => containers::part(subject),
        _ => panic!("there is no part {part}"),
    }
}

/// Starts a server and waits to be killed.
fn abandon(subject: &dyn Subject) {
    let server = subject.start().expect("the case has started one just now");
    wait(&server);
}

/// Does the same, but the server is stopped, with an open connection.
fn abandon_paused(subject: &dyn Subject) {
    let server = subject.start().expect("the case has started one just now");
    let _session = subject.connect(server.url()).expect("it is up");
    server.pause().expect("it runs");
    wait(&server);
}

/// Does the same on PostgreSQL, one of whose processes is busy. That process notices its parent's end only when it
/// waits.
fn abandon_at_work() {
    let server = Owned::start(&Postgres::Installed, &Settings::default()).expect("the case has started one");
    let runtime = runtime().expect("a thread can wait");
    let connect = || runtime.block_on(PgConnection::connect(server.url())).expect("it is up");
    let (mut busy, mut other) = (connect(), connect());
    let forever = "DO $$ BEGIN PERFORM pg_advisory_lock(1); LOOP END LOOP; END $$";
    runtime.spawn(async move { sqlx::raw_sql(forever).execute(&mut busy).await });
    let look = "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory'";
    crate::until(|| {
        runtime.block_on(sqlx::query_scalar(look).fetch_one(&mut other)).expect("the other one answers")
    });
    wait(&server);
}

fn wait(server: &Owned) {
    println!("{}\n{}", server.port(), server.folder().display());
    // Ends with the case, if the case forgets to kill it.
    let _ = io::stdin().read(&mut [0]);
}

/// Finds the server that the environment names.
fn given(subject: &dyn Subject) {
    let server = Server::find(subject.product()).expect("it is up");
    assert!(server.owned().is_none());
    let variable = subject.product().listing().variable;
    assert!(matches!(subject.start(), Err(Absence::NotRun(why)) if why.contains(variable)));
    println!("{server} {server:?}");
}
