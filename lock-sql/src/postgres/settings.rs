//! The settings of the connection to a server: from a URL, or from sqlx' own options.

use std::fmt;

use lock_core::driver::Context;
use lock_core::toolkit::{CertificateNames, Location, Opening, Prefix};
use lock_core::{Client, Error, Options, Result};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use super::schema;
use super::table::PostgresTable;
use crate::driver::SqlDriver;
use crate::server::{Certificates, Parameters};
use crate::server_message::ServerMessage;

/// A PostgreSQL server, and how to reach it.
///
/// ```no_run
/// # use lock_sql as onelock;
/// # async fn example() -> lock_core::Result<()> {
/// use onelock::{Options, postgres::Postgres, sqlx::postgres::PgConnectOptions};
/// let own = PgConnectOptions::new().host("db.example.org").database("billing");
/// let client = Postgres::from(own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Postgres {
    pub(crate) options: PgConnectOptions,
    pub(crate) parameters: Parameters,
}

/// The parameters of a URL that sqlx reads, except those about TLS.
const DRIVERS: [&str; 7] = ["host", "hostaddr", "port", "dbname", "user", "application_name", "options"];

/// Parameters of libpq that are fulfilled by what this library does anyway.
const TAKEN: [&str; 2] = ["target_session_attrs", "channel_binding"];

/// The names of the parameter that asks for encryption, libpq's and sqlx'.
const MODES: [&str; 2] = ["sslmode", "ssl-mode"];

/// Files with certificates, under our names, libpq's and sqlx'.
const FILES: CertificateNames = CertificateNames::new(
    &["ca", "sslrootcert", "ssl-root-cert", "ssl-ca"],
    &["cert", "sslcert", "ssl-cert"],
    &["key", "sslkey", "ssl-key"],
);

impl Postgres {
    /// Reads a URL: `postgres://[user[:password]@][host][:port][/database]`.
    ///
    /// `postgresql://` means the same.
    ///
    /// What the URL leaves out comes from the environment (`PGHOST`, `PGUSER`, …) and from the password file, as sqlx
    /// says. Parameters:
    ///
    /// - `prefix`: stands before every name in the table.
    /// - `table`: the table of locks, `schema.table`, or `table` in the schema `public`; `onelock_locks` by default. A
    ///   search path has no influence on it.
    /// - `connections`: how many connections the client opens at most for its requests, from 2 to 1000; 8 by default.
    ///   One more receives the notifications of releases.
    /// - `patience`: how long one call may take.
    /// - `connect_wait`: for how long opening tries again while the server can\'t be reached, like `30s`.
    /// - `lazy=true`: opening doesn't wait for the server.
    /// - `ca`: a PEM file of the roots that the server's certificate must come from. Encrypts the connection, and
    ///   verifies the host's name too.
    /// - `cert` and `key`: PEM files of the client's certificate and of its private key.
    /// - `sslrootcert`, `sslcert` and `sslkey`, libpq's: the same as `ca`, `cert` and `key`.
    /// - `sslmode`, libpq's: if roots are given, only a mode that verifies is valid.
    /// - `sslrootcert=system`, libpq's: the server's certificate must come from one of the public roots, and
    ///   name the host.
    /// - `target_session_attrs`, libpq's: `any`, `read-write` or `primary`. Locks are taken on the primary in any case.
    /// - `channel_binding`, libpq's: `disable` or `prefer`. It is never used.
    /// - `host` (also a folder with the Unix socket), `hostaddr`, `port`, `dbname`, `user`, `application_name` and
    ///   `options`, libpq's: are passed on.
    ///
    /// # Errors
    ///
    /// - [`Invalid`](lock_core::ErrorKind::Invalid): this is not such a URL, it has any other parameter, a parameter
    ///   has a wrong value, or a file can't be read.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported): the URL names files with certificates, and this build has
    ///   no TLS (its feature `tls` is off).
    pub fn from_url(url: &str) -> Result<Postgres> {
        let mut url = Location::parse(url)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(Error::invalid("not a PostgreSQL URL; write postgres://user@host/database"));
        }
        let mut parameters = Parameters::take(&mut url)?;
        parameters.table = schema::must_be_shared(parameters.table)?;
        refuse_what_is_not_kept(&mut url)?;
        let roots = if url.take_word("sslrootcert", "system") { Roots::Public } else { Roots::Given };
        let certificates = Certificates::take(&mut url, &FILES)?;
        let mode =
            MODES.iter().find_map(|name| url.take(name)).map(|mode| parse_mode(&url, &mode)).transpose()?;
        let mode = roots.verified(mode)?;
        let passed_on = url.take_query(&DRIVERS);
        let options: PgConnectOptions =
            format!("{}?{passed_on}", url.base()).parse().map_err(|e: sqlx::Error| {
                Error::invalid(format!("not a PostgreSQL URL: {}", ServerMessage(&e))).with_source(e)
            })?;
        url.finish(&format!("{}, sslmode, {}, {}", Parameters::KNOWN, DRIVERS.join(", "), TAKEN.join(", ")))?;
        let options = encrypted(options.disable_statement_logging(), mode, certificates)?;
        Ok(Postgres { options, parameters })
    }

    /// Puts `prefix` before every name in the table.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid), as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Postgres> {
        self.parameters.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Keeps the locks in another table: `schema.table`, or `table` in the schema `public`.
    ///
    /// Each part has letters, digits and `_`, at most 63, and begins with no digit.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid) for any other name, and for a schema of the server's own (`pg_…`).
    pub fn table(mut self, table: &str) -> Result<Postgres> {
        self.parameters.table = schema::must_be_shared(table.parse()?)?;
        Ok(self)
    }

    /// Lets the client open at most `most` connections, of which one is kept for renewals and releases.
    ///
    /// One more receives the notifications of releases. Fewer than 2 count as 2.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Postgres {
        self.parameters.connections = most;
        self
    }

    /// Returns the statements that create the table of locks, for an administrator.
    ///
    /// Does no I/O.
    pub fn schema(&self) -> String {
        format!("{};", schema::create(&schema::located(&self.parameters.table)))
    }

    /// Makes [`open`](Self::open) return without waiting for the server.
    ///
    /// If the server can't be reached or refuses, or its table is not one of locks, the first call returns that error
    /// instead. Until then, [`Client::info`] doesn't know the server's settings.
    #[must_use]
    pub fn lazy(mut self) -> Postgres {
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
    /// - [`Unavailable`](lock_core::ErrorKind::Unavailable): the server can't be reached, or is a standby.
    /// - [`Rejected`](lock_core::ErrorKind::Rejected): the server refuses the user, its certificate is not trusted, or
    ///   the table is missing, of another version, not a table of locks, or `UNLOGGED`. If the table's schema was not
    ///   named: this user's search path leads to a table of locks of that name in another schema, or the table is
    ///   missing and any other schema of the database has one.
    /// - [`Unsupported`](lock_core::ErrorKind::Unsupported): the server is older than PostgreSQL 12.
    /// - [`Invalid`](lock_core::ErrorKind::Invalid): the patience is less than 1 ms; or the client is not
    ///   [`dedicated`](Options::dedicated), and there is no tokio runtime here.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client remains. The table of locks may have been created all the same.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.parameters.common.apply_to(options), self.address());
        options.open("postgres", &address, |context| open(self.clone(), context, address.clone())).await
    }

    /// The server for messages: its address, and the database and the table of the locks; without the user. Where it
    /// differs between two clients, they don't share a lock.
    fn address(&self) -> String {
        let (options, database) = (&self.options, self.options.get_database());
        let host = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let (port, database) = (options.get_port(), database.unwrap_or(options.get_username()));
        format!("{host}:{port}/{database}?table={}", schema::located(&self.parameters.table))
    }
}

impl From<PgConnectOptions> for Postgres {
    /// Describes a server by sqlx' own options, without a prefix. The client itself sets what its statements rely on in
    /// a session: isolation, search path, timeouts and the like.
    fn from(options: PgConnectOptions) -> Postgres {
        Postgres { options, parameters: Parameters::default() }
    }
}

impl fmt::Debug for Postgres {
    /// Without the user: sqlx' options would show the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("address", &self.address())
            .field("parameters", &self.parameters)
            .finish()
    }
}

async fn open(postgres: Postgres, context: Context, server: String) -> Result<SqlDriver<PostgresTable>> {
    let opening = postgres.parameters.common.opening;
    SqlDriver::open(PostgresTable::new(postgres, &context, server)?, opening, context).await
}

/// The roots that verify the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Roots {
    /// The roots of the file that the URL names, if it names one.
    Given,
    /// The public ones, which sqlx uses where none are given.
    Public,
}

impl Roots {
    /// Returns the mode in which they verify the server: as libpq does, a weaker one is refused.
    fn verified(self, mode: Option<PgSslMode>) -> Result<Option<PgSslMode>> {
        match (self, mode) {
            (Roots::Given, mode) => Ok(mode),
            (Roots::Public, None | Some(PgSslMode::VerifyFull)) if cfg!(feature = "tls") => {
                Ok(Some(PgSslMode::VerifyFull))
            }
            (Roots::Public, None | Some(PgSslMode::VerifyFull)) => {
                Err(Error::unsupported("this build of lock-sql can't do TLS: its feature `tls` is off"))
            }
            (Roots::Public, Some(_)) => Err(Error::invalid(
                "sslrootcert=system verifies the server's name as well: leave sslmode out, or write sslmode=verify-full",
            )),
        }
    }
}

/// Takes parameters of libpq whose meaning is fulfilled anyway, and refuses what can't be kept, with the way
/// that works.
fn refuse_what_is_not_kept(url: &mut Location) -> Result<()> {
    if let Some(sessions) = url.take("target_session_attrs")
        && !matches!(sessions.as_str(), "any" | "read-write" | "primary")
    {
        let given = url.shown("target_session_attrs", &sessions);
        return Err(Error::invalid(format!(
            "{given}: locks are taken on the primary; leave it out, or write read-write"
        )));
    }
    if let Some(binding) = url.take("channel_binding")
        && !matches!(binding.as_str(), "disable" | "prefer")
    {
        let given = url.shown("channel_binding", &binding);
        return Err(Error::invalid(format!(
            "{given}: this client does no channel binding; leave it out and write sslmode=verify-full (or \
             sslrootcert=system), by which the server proves who it is as well"
        )));
    }
    let authority = url.base().split("://").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let has_several = |text: &str| text.contains(',');
    if has_several(hosts) || url.clone().take("host").is_some_and(|hosts| has_several(&hosts)) {
        return Err(Error::invalid(
            "the URL names several hosts; name one address that leads to the primary (a proxy, a service, a virtual IP): a \
             standby takes no locks",
        ));
    }
    Ok(())
}

fn parse_mode(url: &Location, text: &str) -> Result<PgSslMode> {
    text.parse().map_err(|_| {
        let mode = url.shown("sslmode", text);
        Error::invalid(format!("{mode}: must be disable, allow, prefer, require, verify-ca or verify-full"))
    })
}

/// Adds TLS to the options. If roots are given, the server is verified with them. If a client's certificate is given,
/// it is not used with a server that offers no TLS.
fn encrypted(
    options: PgConnectOptions,
    mode: Option<PgSslMode>,
    certificates: Option<Certificates>,
) -> Result<PgConnectOptions> {
    use PgSslMode::{Allow, Disable, Prefer, Require, VerifyFull};
    let Some(Certificates { ca, client }) = certificates else {
        return Ok(match mode {
            Some(mode) => options.ssl_mode(mode),
            None => options,
        });
    };
    let mode = match (mode, &ca) {
        (Some(Disable | Allow | Prefer), _) => {
            return Err(Error::invalid(
                "roots and certificates are of no use with sslmode disable, allow or prefer",
            ));
        }
        (Some(Require), Some(_)) => {
            return Err(Error::invalid(
                "roots verify the server, but sslmode=require does not: leave it out, or write verify-full or \
                 verify-ca",
            ));
        }
        (Some(mode), _) => mode,
        (None, Some(_)) => VerifyFull,
        (None, None) => Require,
    };
    let options = options.ssl_mode(mode);
    let options = match ca {
        Some(ca) => options.ssl_root_cert(ca),
        None => options,
    };
    Ok(match client {
        Some((cert, key)) => options.ssl_client_cert(cert).ssl_client_key(key),
        None => options,
    })
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
        assert_eq!(postgres.address(), "db.example.org:6000/app?table=ops.locks");
        assert_eq!((options.get_username(), options.get_application_name()), ("me", Some("a&b c")));
        assert!(options.get_options().is_some_and(|options| options.contains("-c geqo=off")), "{options:?}");
        assert!(matches!(options.get_ssl_mode(), PgSslMode::Require));
        assert_eq!(parameters.common.prefix, Prefix::new("a:").unwrap());
        assert_eq!((parameters.table.to_string().as_str(), parameters.connections), ("ops.locks", 3));
        assert!(!format!("{postgres:?}").contains("s3cret"));
        let socket = Postgres::from_url("postgresql://me@localhost:5433/app?host=/run/postgresql").unwrap();
        assert_eq!(
            socket.options.get_socket().map(std::path::PathBuf::as_path),
            Some(Path::new("/run/postgresql"))
        );
        assert_eq!(socket.address(), "/run/postgresql:5433/app?table=public.onelock_locks");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn given_roots_verify_the_server_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots");
        std::fs::write(&file, "-----BEGIN CERTIFICATE-----").unwrap();
        let mode = |query: &str| {
            let url = format!("postgres://h/d?{query}").replace("FILE", &file.display().to_string());
            Postgres::from_url(&url).map(|postgres| format!("{:?}", postgres.options.get_ssl_mode()))
        };
        for roots in ["ca", "sslrootcert", "ssl-root-cert", "ssl-ca"] {
            assert_eq!(mode(&format!("{roots}=FILE")).unwrap(), "VerifyFull");
            assert_eq!(mode(&format!("{roots}=FILE&sslmode=verify-ca")).unwrap(), "VerifyCa");
            for useless in ["disable", "allow", "prefer", "require"] {
                let error = mode(&format!("{roots}=FILE&sslmode={useless}")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            }
        }
        assert!(mode("ca=FILE&sslrootcert=FILE").is_err());
        assert_eq!(mode("ca=FILE&ssl-mode=verify-ca").unwrap(), "VerifyCa");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn a_clients_certificate_is_shown_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, what: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, format!("-----BEGIN {what}-----")).unwrap();
            file.display().to_string()
        };
        let (cert, key) = (file("cert", "CERTIFICATE"), file("key", "PRIVATE KEY"));
        for (of_cert, of_key) in [("cert", "key"), ("sslcert", "sslkey"), ("ssl-cert", "ssl-key")] {
            let url = format!("postgres://h/d?{of_cert}={cert}");
            let postgres = Postgres::from_url(&format!("{url}&{of_key}={key}")).unwrap();
            let shown = format!("{:?}", postgres.options);
            assert!(shown.contains(&cert) && shown.contains(&key), "{shown}");
            assert!(matches!(postgres.options.get_ssl_mode(), PgSslMode::Require));
            assert_eq!(Postgres::from_url(&url).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn providers_urls_are_accepted_or_corrected() {
        let mode = |query: &str| {
            Postgres::from_url(&format!("postgres://u:p@h/d?{query}"))
                .map(|postgres| format!("{:?}", postgres.options.get_ssl_mode()))
        };
        let neon = "sslmode=require&channel_binding=prefer&target_session_attrs=read-write";
        assert_eq!(mode(neon).unwrap(), "Require");
        #[cfg(feature = "tls")]
        for system in ["sslrootcert=system", "sslrootcert=system&sslmode=verify-full"] {
            assert_eq!(mode(system).unwrap(), "VerifyFull");
        }
        for (query, way) in [
            ("channel_binding=require", "sslmode=verify-full"),
            ("target_session_attrs=standby", "read-write"),
            ("sslrootcert=system&sslmode=require", "sslmode=verify-full"),
            ("host=a,b", "one address"),
        ] {
            let error = mode(query).expect_err(query);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.message().contains(way), "{query}: {error}");
        }
        for url in ["postgres://u:p,q@a:1,b:2/d", "postgres://a,b"] {
            let error = Postgres::from_url(url).expect_err(url);
            assert!(error.message().contains("one address"), "{error}");
        }
        let query = Postgres::from_url("postgres:///d?host=db.example.org&user=u&port=6000").unwrap();
        assert_eq!(query.address(), "db.example.org:6000/d?table=public.onelock_locks");
        assert!(Postgres::from_url("postgres://u:p,q@h/d").is_ok(), "a password may have a comma");
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "mysql://h",
            "postgres://h?isolation=none",
            "postgres://h?sslmode=perhaps",
            "postgres://h:port/",
            "postgres://h?table=a;b",
            "postgres://h?table=pg_temp.locks",
            "postgres://h?connections=1",
            "postgres://h?cert=a",
            "postgres://h?ca=/no/such/file",
        ] {
            assert_eq!(Postgres::from_url(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
