//! PgBouncer in front of a PostgreSQL that was started here. Its clients share connections, one transaction at a time.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Row};

use super::catalogue::{self, Listing};
use super::executable::{Account, Executable};
use super::owned::Owned;
use super::postgres::Postgres;
use super::product::{Place, Product};
use super::requirement::Absence;
use super::settings::Settings;
use super::sql::{self, DATABASE, USER};

/// PgBouncer, one process that pools by transaction.
#[derive(Debug)]
pub struct PgBouncer {
    /// The server's Unix socket, in PgBouncer's own parameters.
    server: String,
}

impl PgBouncer {
    /// Starts PgBouncer in front of this PostgreSQL. The `args` are lines for the end of its configuration file.
    ///
    /// # Errors
    ///
    /// If it is missing or does not start.
    pub fn before(postgres: &Owned, settings: &Settings) -> Result<Owned, Absence> {
        let server = format!("host={} port={}", postgres.folder().display(), postgres.port());
        // A server is started with a product that lives as long as the process. One product for each test is not much
        // to leak.
        Owned::start(Box::leak(Box::new(PgBouncer { server })), settings)
    }

    fn settings(&self, place: &Place, settings: &Settings) -> String {
        let Place { folder, port, .. } = place;
        let folder = folder.display();
        let further = settings.args.join("\n");
        // PgBouncer refuses parameters of clients that it can't keep apart, unless they are named here.
        format!(
            "[databases]\n\
             {DATABASE} = {server} dbname={DATABASE}\n\
             [pgbouncer]\n\
             listen_addr = 127.0.0.1\n\
             listen_port = {port}\n\
             unix_socket_dir = {folder}\n\
             auth_type = trust\n\
             auth_file = {folder}/users\n\
             admin_users = {USER}\n\
             pool_mode = transaction\n\
             ignore_startup_parameters = extra_float_digits\n\
             {further}\n",
            server = self.server,
        )
    }
}

impl Product for PgBouncer {
    fn listing(&self) -> &'static Listing {
        &catalogue::PGBOUNCER
    }

    fn account(&self) -> Account {
        Account::Unprivileged
    }

    fn prepare(&self, _: &Executable, place: &Place, settings: &Settings) -> io::Result<()> {
        fs::write(place.folder.join("users"), format!("\"{USER}\" \"\"\n"))?;
        fs::write(place.folder.join("settings.ini"), self.settings(place, settings))
    }

    fn command(&self, program: &Executable, place: &Place, _: &Settings) -> Command {
        let mut command = program.command();
        command.arg(place.folder.join("settings.ini")).current_dir(&place.folder);
        command
    }

    fn url(&self, place: &Place) -> String {
        Postgres::Installed.url(place)
    }

    fn socket(&self, place: &Place) -> Option<PathBuf> {
        Postgres::Installed.socket(place)
    }

    fn own_url(&self, place: &Place) -> String {
        Postgres::Installed.own_url(place)
    }

    /// Asks at PgBouncer's own console, which is a database of this name.
    fn greet(&self, url: &str) -> io::Result<String> {
        let version: String = sql::ask(async {
            let console = url.parse::<PgConnectOptions>()?.database("pgbouncer");
            let mut connection = console.connect().await?;
            let version = sqlx::raw_sql("SHOW VERSION").fetch_one(&mut connection).await?.try_get(0)?;
            let _ = connection.close().await;
            Ok(version)
        })?;
        Ok(version.to_lowercase())
    }
}
