//! How a server is named: by a URL, or by sqlx' own options.

use std::fmt;

use lock_core::{Client, Context, Error, Location, Options, Prefix, Result};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::schema;
use super::table::PostgresTable;
use crate::driver::SqlDriver;
use crate::server::{Certificates, Parameters};

/// A PostgreSQL server, and how to reach it.
///
/// ```no_run
/// # async fn example() -> lock_core::Result<()> {
/// use lock_sql::{Options, postgres::Postgres, sqlx::postgres::PgConnectOptions};
/// let own = PgConnectOptions::new().host("db.example.org").database("billing");
/// let client = Postgres::from(own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Postgres {
    pub(crate) options: PgConnectOptions,
    pub(crate) parameters: Parameters,
}

/// What sqlx reads of a URL.
const DRIVERS: [&str; 16] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "application_name",
    "options",
];

impl Postgres {
    /// Reads a URL: `postgres://[user[:password]@][host][:port][/database]`, or the same with `postgresql://`.
    ///
    /// What it leaves out is taken from the environment (`PGHOST`, `PGUSER`, …) and from the password file, as sqlx says.
    /// Parameters: `prefix` (stands before every name in the table), `table` (`onelock_locks`, or another, or
    /// `schema.table`), `connections` (how many the client opens at most for its requests, 8 unless you say otherwise; one
    /// more hears of releases), `patience` (how long one call may take), `ca` (a PEM file of the roots that the server's
    /// certificate has to come from: encrypts, and verifies the host's name too), `cert` and `key` (PEM files of the
    /// client's certificate). libpq's `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `host` (also a folder with the Unix
    /// socket), `hostaddr`, `port`, `dbname`, `user`, `application_name` and `options` are passed on. `Invalid` for any
    /// other, and for a file that can't be read.
    pub fn from_url(url: &str) -> Result<Postgres> {
        let mut url = Location::parse(url)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(Error::invalid("no PostgreSQL URL; write postgres://user@host/database"));
        }
        let parameters = Parameters::take(&mut url)?;
        let certificates = Certificates::take(&mut url)?;
        let passed_on =
            DRIVERS.iter().filter_map(|name| Some(format!("{name}={}", escape(&url.take(name)?))));
        let passed_on = passed_on.collect::<Vec<_>>().join("&");
        let options: PgConnectOptions = format!("{}?{passed_on}", url.base())
            .parse()
            .map_err(|e: sqlx::Error| Error::invalid(format!("no PostgreSQL URL: {e}")).with_source(e))?;
        url.finish(&format!("{}, {}", Parameters::KNOWN, DRIVERS.join(", ")))?;
        let mut options = options.disable_statement_logging();
        if let Some(certificates) = certificates {
            options = encrypted(options, certificates);
        }
        Ok(Postgres { options, parameters })
    }

    /// Puts `prefix` before every name in the table. `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Postgres> {
        self.parameters.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Keeps the locks in another table: `table`, or `schema.table`. `Invalid` unless its parts are of letters, digits
    /// and `_`.
    pub fn table(mut self, table: &str) -> Result<Postgres> {
        self.parameters.table = table.parse()?;
        Ok(self)
    }

    /// Opens `most` connections at most, of which one is kept for renewals and releases; one more hears of releases.
    /// Fewer than 2 are taken for 2.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Postgres {
        self.parameters.connections = most;
        self
    }

    /// The statements that create the table of locks, for an administrator. Does no I/O.
    pub fn schema(&self) -> String {
        format!("{};", schema::create(&self.parameters.table))
    }

    /// Opens a client. Waits, for one patience at most, until the server has answered. The table of locks is created if it
    /// isn't there and the user may.
    ///
    /// `Unavailable` if the server can't be reached, or is a standby; `Rejected` if it refuses us, its certificate is not
    /// trusted, or the table is missing or of another version; `Unsupported` if it is older than PostgreSQL 12.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.parameters.options(options), self.address());
        let server = address.clone();
        options.open("postgres", &address, |context| open(self, context, server)).await
    }

    /// The server for people: where it is, without who we are.
    fn address(&self) -> String {
        let (options, database) = (&self.options, self.options.get_database());
        let host = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => options.get_host().to_owned(),
        };
        format!("{host}:{}/{}", options.get_port(), database.unwrap_or(options.get_username()))
    }
}

impl From<PgConnectOptions> for Postgres {
    /// A server as sqlx' own options describe it, without a prefix. Isolation, statement timeout and float digits are set
    /// by us.
    fn from(options: PgConnectOptions) -> Postgres {
        Postgres { options, parameters: Parameters::default() }
    }
}

impl fmt::Debug for Postgres {
    /// Without who we are: sqlx' options show their password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("address", &self.address())
            .field("parameters", &self.parameters)
            .finish()
    }
}

async fn open(postgres: Postgres, context: Context, server: String) -> Result<SqlDriver<PostgresTable>> {
    let clock = context.clock.clone();
    Ok(SqlDriver::new(PostgresTable::open(postgres, context, server).await?, clock))
}

/// A certificate is asked for to be verified.
fn encrypted(mut options: PgConnectOptions, certificates: Certificates) -> PgConnectOptions {
    let verified = certificates.ca.is_some();
    if let Some(ca) = certificates.ca {
        options = options.ssl_root_cert(ca);
    }
    if let Some((cert, key)) = certificates.client {
        options = options.ssl_client_cert(cert).ssl_client_key(key);
    }
    match options.get_ssl_mode() {
        _ if verified => options.ssl_mode(PgSslMode::VerifyFull),
        PgSslMode::Disable | PgSslMode::Allow | PgSslMode::Prefer => options.ssl_mode(PgSslMode::Require),
        _ => options,
    }
}

fn escape(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    value
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_is_ours_and_the_drivers() {
        let url = "postgres://me:s3cret@db.example.org:6000/app?prefix=a%3A&table=ops.locks&connections=3&patience=250ms\
            &application_name=a%26b%20c&options=-c%20geqo%3Doff&sslmode=require";
        let postgres = Postgres::from_url(url).unwrap();
        let (options, parameters) = (&postgres.options, &postgres.parameters);
        assert_eq!(postgres.address(), "db.example.org:6000/app");
        assert_eq!((options.get_username(), options.get_application_name()), ("me", Some("a&b c")));
        assert!(options.get_options().is_some_and(|options| options.contains("-c geqo=off")), "{options:?}");
        assert!(matches!(options.get_ssl_mode(), PgSslMode::Require));
        assert_eq!(parameters.prefix, Prefix::new("a:").unwrap());
        assert_eq!((parameters.table.to_string().as_str(), parameters.connections), ("ops.locks", 3));
        assert!(!format!("{postgres:?}").contains("s3cret"));
        let socket = Postgres::from_url("postgresql://me@localhost:5433/app?host=/run/postgresql").unwrap();
        assert_eq!(
            socket.options.get_socket().map(std::path::PathBuf::as_path),
            Some(Path::new("/run/postgresql"))
        );
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "mysql://h",
            "postgres://h?isolation=none",
            "postgres://h?sslmode=perhaps",
            "postgres://h:port/",
            "postgres://h?table=a;b",
            "postgres://h?connections=1",
            "postgres://h?cert=a",
            "postgres://h?ca=/no/such/file",
        ] {
            assert_eq!(Postgres::from_url(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
