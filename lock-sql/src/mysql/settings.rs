//! The settings of the connection to a server: from a URL, or from sqlx' own options.

use std::str::FromStr;

use lock_core::driver::Context;
use lock_core::toolkit::{CertificateNames, Location, Opening, Prefix};
use lock_core::{Client, Error, Options, Result};
use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};

use super::schema;
use super::table::MySqlTable;
use crate::driver::SqlDriver;
use crate::server::{Certificates, Parameters, TableName};
use crate::server_message::ServerMessage;

/// A MySQL or MariaDB server, and how to reach it.
///
/// ```no_run
/// # use lock_sql as onelock;
/// # async fn example() -> lock_core::Result<()> {
/// use onelock::{Options, mysql::MySql, sqlx::mysql::MySqlConnectOptions};
/// let own = MySqlConnectOptions::new().host("db.example").username("billing").database("billing");
/// let client = MySql::from(own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MySql {
    pub(super) options: MySqlConnectOptions,
    pub(super) parameters: Parameters,
}

/// The driver's own parameters, beside ours.
const DRIVERS: [&str; 2] = ["ssl-mode", "socket"];

const NO_DATABASE: &str = "the URL names no database; write mysql://host/database, or table=database.table";

impl MySql {
    /// Reads a URL: `mysql://user:password@host[:port]/database`.
    ///
    /// `mariadb://` means the same.
    ///
    /// Parameters:
    ///
    /// - `prefix`: stands before every name on the server.
    /// - `table`: the table of locks, `onelock_locks` by default; with another database before a dot if needed.
    /// - `connections`: how many connections the client opens at most, from 2 to 1000; 8 by default.
    /// - `patience`: how long one call may take.
    /// - `connect_wait`: for how long opening tries again while the server can\'t be reached, like `30s`.
    /// - `lazy=true`: opening doesn't wait for the server.
    /// - `ca`: a PEM file of the roots to trust. The server's certificate and its host name are then verified.
    /// - `cert` and `key`: PEM files of the client's certificate and of its private key.
    /// - `ssl-mode`, the driver's own: `DISABLED`, `PREFERRED`, `REQUIRED`, `VERIFY_CA` or `VERIFY_IDENTITY`.
    /// - `socket`, the driver's own: the path of a Unix socket.
    ///
    /// Without any parameter about TLS, the client uses TLS if the server offers it, and verifies nothing.
    ///
    /// # Errors
    ///
    /// - [`Invalid`](lock_core::ErrorKind::Invalid): this is not such a URL, it has any other parameter, a parameter
    ///   has a wrong value, or a file can't be read.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported): the URL asks for TLS, and this build has none (its feature
    ///   `tls` is off).
    pub fn from_url(url: &str) -> Result<MySql> {
        let mut url = Location::parse(url)?;
        let mut options = parse_base(&url)?;
        let parameters = Parameters::take(&mut url)?;
        let certificates = Certificates::take(&mut url, &CertificateNames::default())?;
        let mode = url.take("ssl-mode").map(|mode| parse_mode(&url, &mode)).transpose()?;
        options = encrypted(options, mode, certificates)?;
        if let Some(socket) = url.take("socket") {
            options = options.socket(socket);
        }
        url.finish(&format!("{}, {}", Parameters::KNOWN, DRIVERS.join(", ")))?;
        Ok(MySql { options, parameters })
    }

    /// Puts `prefix` before every name on the server.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid), as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<MySql> {
        self.parameters.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Keeps the locks in another table than `onelock_locks`: `table` in the URL's database, or `database.table`.
    ///
    /// Each part has letters, digits and `_`, at most 63, and begins with no digit.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid) for any other name.
    pub fn table(mut self, table: &str) -> Result<MySql> {
        self.parameters.table = table.parse()?;
        Ok(self)
    }

    /// Returns the statement that creates the table of locks, for an administrator.
    ///
    /// Does no I/O.
    pub fn schema(&self) -> String {
        format!("{};", schema::create(&self.table_name()))
    }

    /// Makes [`open`](Self::open) return without waiting for the server.
    ///
    /// If the server can't be reached or refuses, or its table is not one of locks, the first call returns that error
    /// instead. Until then, [`Client::info`] doesn't know the server's settings.
    #[must_use]
    pub fn lazy(mut self) -> MySql {
        self.parameters.common.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless [lazy](Self::lazy), it waits until the server has answered, for one patience at most. Creates the table
    /// of locks if it is missing and this user has the right to create it.
    ///
    /// # Errors
    ///
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable): the server can't be reached.
    /// - [`Rejected`](lock_core::ErrorKind::Rejected): the server refuses the user, the database or the table is
    ///   missing, or the table is of another version, not a table of locks, or not an InnoDB table.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported): the server was started with `sysdate-is-now`, or the clock
    ///   of the session was set.
    /// - [`Invalid`](lock_core::ErrorKind::Invalid): neither the URL nor the table's name says in which
    ///   database the table is; the patience is less than 1 ms; or the client is not
    ///   [`dedicated`](Options::dedicated), and there is no tokio runtime here.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client remains. The table of locks may have been created all the same.
    pub async fn open(self, options: Options) -> Result<Client> {
        let options = self.parameters.common.apply_to(options);
        if self.table_name().schema().is_none() {
            return Err(Error::invalid(NO_DATABASE));
        }
        let address = self.address();
        options.open("mysql", &address, |context| open(self.clone(), context)).await
    }

    /// The table with its database. A session may begin in another database (`init_connect`, a proxy).
    fn table_name(&self) -> TableName {
        let named = self.parameters.table.clone();
        match self.options.get_database() {
            Some(database) => named.within(database),
            None => named,
        }
    }

    /// The server for messages: its address, and the database and the table of the locks; without the user.
    fn address(&self) -> String {
        let (database, table) = (self.options.get_database().unwrap_or_default(), self.table_name());
        match self.options.get_socket() {
            Some(socket) => format!("{} ({database})?table={table}", socket.display()),
            None => {
                format!("{}:{}/{database}?table={table}", self.options.get_host(), self.options.get_port())
            }
        }
    }
}

async fn open(mysql: MySql, context: Context) -> Result<SqlDriver<MySqlTable>> {
    let (name, opening, server) = (mysql.table_name(), mysql.parameters.common.opening, mysql.address());
    SqlDriver::open(MySqlTable::new(mysql, name, &server, context.patience)?, opening, context).await
}

impl From<MySqlConnectOptions> for MySql {
    /// Describes a server by sqlx' own options, without a prefix. The client sets the time zone, the character set and
    /// the `sql_mode` of its connections itself.
    fn from(options: MySqlConnectOptions) -> MySql {
        MySql { options, parameters: Parameters::default() }
    }
}

impl std::fmt::Debug for MySql {
    /// Without the password, which sqlx' options would show.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MySql")
            .field("server", &self.address())
            .field("user", &self.options.get_username())
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}

fn parse_base(url: &Location) -> Result<MySqlConnectOptions> {
    if !matches!(url.scheme(), "mysql" | "mariadb") || !url.base().contains("://") {
        return Err(Error::invalid("not a MySQL URL; write mysql://user:password@host/database"));
    }
    url.refuse_fragment()?;
    let authority = url.base().split('/').nth(2).unwrap_or_default();
    if authority.rsplit('@').next().is_none_or(str::is_empty) {
        return Err(Error::invalid("the URL names no host; write mysql://user:password@host/database"));
    }
    // sqlx' errors name what is wrong, and never contain the URL.
    let options = MySqlConnectOptions::from_str(url.base())
        .map_err(|e| Error::invalid(format!("not a MySQL URL: {}", ServerMessage(&e))).with_source(e))?;
    Ok(options.disable_statement_logging())
}

fn parse_mode(url: &Location, text: &str) -> Result<MySqlSslMode> {
    text.parse().map_err(|_| {
        let mode = url.shown("ssl-mode", text);
        Error::invalid(format!("{mode}: must be DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"))
    })
}

/// Adds TLS to the options. If roots are given, the server is verified with them. If a client's certificate is given,
/// it is not sent to a server that offers no TLS.
fn encrypted(
    options: MySqlConnectOptions,
    mode: Option<MySqlSslMode>,
    certificates: Option<Certificates>,
) -> Result<MySqlConnectOptions> {
    use MySqlSslMode::{Disabled, Preferred, Required, VerifyCa, VerifyIdentity};
    let asks_for_tls = mode.is_some_and(|mode| matches!(mode, Required | VerifyCa | VerifyIdentity));
    if asks_for_tls && cfg!(not(feature = "tls")) {
        return Err(Error::unsupported("this build of lock-sql can't do TLS: its feature `tls` is off"));
    }
    let Some(Certificates { ca, client }) = certificates else {
        return Ok(options.ssl_mode(mode.unwrap_or(Preferred)));
    };
    let mode = match (mode, &ca) {
        (Some(Disabled | Preferred), _) => {
            return Err(Error::invalid("ca, cert and key are of no use with ssl-mode DISABLED or PREFERRED"));
        }
        (Some(Required), Some(_)) => {
            return Err(Error::invalid("ca verifies the server, but ssl-mode=REQUIRED does not; drop one"));
        }
        (Some(mode), _) => mode,
        (None, Some(_)) => VerifyIdentity,
        (None, None) => Required,
    };
    let options = options.ssl_mode(mode);
    let options = ca.map_or(options.clone(), |ca| options.ssl_ca(ca));
    Ok(match client {
        Some((cert, key)) => options.ssl_client_cert(cert).ssl_client_key(key),
        None => options,
    })
}

#[cfg(test)]
mod tests {

    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_gives_address_user_and_options() {
        let mysql = MySql::from_url(
            "mysql://deploy:s%40crt@host:3307/ops?prefix=app%3A&table=ops.locks&connections=3&patience=250ms",
        )
        .unwrap();
        assert_eq!(mysql.address(), "host:3307/ops?table=ops.locks");
        assert_eq!(mysql.options.get_username(), "deploy");
        assert_eq!(mysql.parameters.common.prefix, Prefix::new("app:").unwrap());
        assert_eq!(
            (mysql.parameters.table.to_string(), mysql.parameters.connections),
            ("ops.locks".into(), 3)
        );

        assert_eq!(MySql::from_url("mariadb://h/d").unwrap().address(), "h:3306/d?table=d.onelock_locks");
        assert_eq!(
            MySql::from_url("mysql://h/d?socket=/run/s").unwrap().address(),
            "/run/s (d)?table=d.onelock_locks"
        );
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "mysql://h/d?ttl=3s",
            "mysql://h/d?charset=latin1",
            "mysql://h/d?ssl-mode=perhaps",
            "mysql://h/d?table=a.b.c",
            "mysql://h/d?connections=1",
            "mysql://h/d?patience=5",
            "mysql://h/d#x",
            "mysql:d",
            "mysql://",
            "postgres://h/d",
            "mysql://h:x/d",
            "mysql://h/d?ca=/no/such/file",
            "mysql://h/d?cert=/only",
        ] {
            assert_eq!(MySql::from_url(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }

    #[test]
    fn a_url_without_database_fails_before_connecting() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for url in ["mysql://h", "mysql://u:p@h:1/", "mariadb://h?table=locks"] {
            let opened = runtime.block_on(MySql::from_url(url).unwrap().open(Options::default()));
            let error = opened.map(drop).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
            assert!(error.message().contains("names no database"), "{error}");
        }
    }

    #[test]
    fn nothing_tells_a_password() {
        let mysql = MySql::from_url("mysql://u:hunter2@h/d").unwrap();
        assert!(!format!("{mysql:?} {}", mysql.address()).contains("hunter2"));
        for bad in ["mysql://u:hunter2@h:99999/d", "mysql://u:hunter2@h/d?x=1", "mysql://u:hunter2@/d"] {
            let error = MySql::from_url(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn roots_mean_that_the_server_is_verified() {
        let with = |mode, ca: Option<&str>| {
            let certificates = Certificates { ca: ca.map(Into::into), client: None };
            let options = encrypted(MySqlConnectOptions::new(), mode, Some(certificates)).unwrap();
            format!("{:?}", options.get_ssl_mode())
        };
        assert_eq!(with(None, Some("/ca")), "VerifyIdentity");
        assert_eq!(with(None, None), "Required");
        if cfg!(feature = "tls") {
            assert_eq!(with(Some(MySqlSslMode::VerifyCa), Some("/ca")), "VerifyCa");
        }
        for mode in [MySqlSslMode::Disabled, MySqlSslMode::Preferred] {
            assert!(
                encrypted(MySqlConnectOptions::new(), Some(mode), Some(Certificates::default())).is_err()
            );
        }
    }
}
