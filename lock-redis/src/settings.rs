//! How a server is reached: by a URL, or by redis' own options.

use std::time::Duration;

use lock_core::driver::{Location, Prefix};
use lock_core::{Client, Error, Options, Result};
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::driver::RedisDriver;

/// A Redis or Valkey server, and how to reach it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_redis::{Options, Redis, redis};
/// let own = redis::Client::open("redis://127.0.0.1/")?;
/// let client = Redis::from(&own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Redis {
    pub(crate) connection: ConnectionInfo,
    pub(crate) prefix: Prefix,
    pub(crate) opening: Opening,
    patience: Option<Duration>,
}

/// Whether opening waits for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Waits,
    Lazy,
}

const PARAMETERS: &str =
    "prefix, patience, lazy; with rediss:// also ca, cert, key; with unix:// also db, user, pass";

impl Redis {
    /// Parses a URL.
    ///
    /// `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS, `unix:///path/to/socket`; `valkey://`,
    /// `valkeys://`, `redis+unix://` and `valkey+unix://` mean the same.
    ///
    /// Parameters: `prefix` (put before every name on the server), `patience` (how long one request may take),
    /// `lazy=true` (opening doesn't wait for the server); with TLS `ca` (a PEM file of the roots to trust instead of
    /// the public ones), `cert` and `key` (PEM files of the client's certificate); on a Unix socket `db`, `user`,
    /// `pass`.
    ///
    /// # Errors
    ///
    /// `Invalid` for any other parameter, for a file that can't be read, and for a text that is no URL of this form.
    /// `Unsupported` for TLS in a build without the feature `tls`.
    pub fn from_url(url: &str) -> Result<Redis> {
        let mut url = Location::parse(url)?;
        if url.base().contains('#') {
            return Err(Error::invalid("a Redis URL has no #fragment; escape the character as %23"));
        }
        let connection = parse_base(&url)?;
        let mut redis = Redis::from(connection);
        redis.prefix = url.take_prefix()?;
        redis.patience = url.take_duration("patience")?;
        redis.opening = take_opening(&mut url)?;
        match redis.connection.addr() {
            ConnectionAddr::Unix(_) => redis.take_login(&mut url)?,
            ConnectionAddr::TcpTls { .. } => redis.take_certificates(&mut url)?,
            _ => {}
        }
        url.finish(PARAMETERS)?;
        Ok(redis)
    }

    /// Puts `prefix` before every name on the server.
    ///
    /// # Errors
    ///
    /// `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Redis> {
        self.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Makes [`open`](Redis::open) return without waiting for the server.
    ///
    /// If the server is not reachable or refuses, the first call returns that error instead.
    #[must_use]
    pub fn lazy(mut self) -> Redis {
        self.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless lazy, it waits until the server has answered, for one patience at most. It has to be called inside a
    /// tokio runtime, unless the options are [`dedicated`](Options::dedicated).
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server can't be reached, `Rejected` if it refuses this client or is older than Redis 6.2,
    /// `Unsupported` for TLS in a build without the feature `tls`, `Invalid` outside a tokio runtime or for a patience
    /// below 1 ms.
    pub async fn open(self, options: Options) -> Result<Client> {
        let options = match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        };
        let address = self.address();
        options.open("redis", &address, |context| RedisDriver::open(self, context)).await
    }

    /// Returns the server's address and database, for people; without user and password.
    pub fn address(&self) -> String {
        match self.connection.redis_settings().db() {
            0 => self.connection.addr().to_string(),
            db => format!("{} (database {db})", self.connection.addr()),
        }
    }

    /// Reads the database, the user and the password from the parameters: the URL of a Unix socket has no other place
    /// for them.
    fn take_login(&mut self, url: &mut Location) -> Result<()> {
        let mut login = self.connection.redis_settings().clone();
        if let Some(db) = url.take("db") {
            let wrong = |_| Error::invalid(format!("{}: not a database number", url.shown("db", &db)));
            login = login.set_db(db.parse().map_err(wrong)?);
        }
        if let Some(user) = url.take("user") {
            login = login.set_username(user);
        }
        if let Some(password) = url.take("pass") {
            login = login.set_password(password);
        }
        self.connection = self.connection.clone().set_redis_settings(login);
        Ok(())
    }

    #[cfg(feature = "tls")]
    fn take_certificates(&mut self, url: &mut Location) -> Result<()> {
        let root_cert = url.take("ca").map(|path| read_pem(url, "ca", &path, "CERTIFICATE")).transpose()?;
        let client_tls = match (url.take("cert"), url.take("key")) {
            (Some(cert), Some(key)) => Some(redis::ClientTlsConfig {
                client_cert: read_pem(url, "cert", &cert, "CERTIFICATE")?,
                client_key: read_pem(url, "key", &key, "PRIVATE KEY")?,
            }),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "cert and key go together: the client's certificate and its private key",
                ));
            }
        };
        if root_cert.is_some() || client_tls.is_some() {
            let certificates = redis::TlsCertificates { client_tls, root_cert };
            let client = redis::Client::build_with_tls(self.connection.clone(), certificates)
                .map_err(|e| Error::invalid(format!("ca, cert or key: {e}")).with_source(e))?;
            self.connection = client.get_connection_info().clone();
        }
        Ok(())
    }

    #[cfg(not(feature = "tls"))]
    fn take_certificates(&mut self, _: &mut Location) -> Result<()> {
        Err(without_tls())
    }
}

impl From<ConnectionInfo> for Redis {
    /// Takes a server as redis' own options describe it, without a prefix and not lazy. Its sockets always get nodelay.
    /// They get keepalive and a user timeout unless the options set their own.
    fn from(connection: ConnectionInfo) -> Redis {
        Redis {
            connection: with_sockets_that_notice(connection),
            prefix: Prefix::default(),
            opening: Opening::Waits,
            patience: None,
        }
    }
}

impl From<&redis::Client> for Redis {
    /// Takes the server of a client of redis' own. It copies the options and does not share the connections.
    fn from(client: &redis::Client) -> Redis {
        Redis::from(client.get_connection_info().clone())
    }
}

fn parse_base(url: &Location) -> Result<ConnectionInfo> {
    #[cfg(not(feature = "tls"))]
    if matches!(url.scheme(), "rediss" | "valkeys") {
        return Err(without_tls());
    }
    // The errors of this parser name the part that is wrong, never the URL.
    url.base().into_connection_info().map_err(|e| Error::invalid(format!("no Redis URL: {e}")).with_source(e))
}

#[cfg(not(feature = "tls"))]
fn without_tls() -> Error {
    Error::unsupported("this build of lock-redis can't do TLS: its feature `tls` is off")
}

fn take_opening(url: &mut Location) -> Result<Opening> {
    match url.take("lazy").as_deref() {
        None | Some("false") => Ok(Opening::Waits),
        Some("true") => Ok(Opening::Lazy),
        Some(other) => Err(Error::invalid(format!("{}: true or false", url.shown("lazy", other)))),
    }
}

#[cfg(feature = "tls")]
fn read_pem(url: &Location, parameter: &str, path: &str, what: &str) -> Result<Vec<u8>> {
    let file = url.shown(parameter, path);
    let pem = std::fs::read(path)
        .map_err(|e| Error::invalid(format!("{file} can't be read: {e}")).with_source(e))?;
    // redis would take a file without any PEM block for an empty list of roots, and the handshake would fail with an
    // error that doesn't name the file.
    if !String::from_utf8_lossy(&pem).contains(&format!("{what}-----")) {
        return Err(Error::invalid(format!("{file} holds no {what} in PEM form")));
    }
    Ok(pem)
}

/// How long a peer may be silent before its connection counts as dead. No call waits for this: a dead connection is to
/// be noticed before a call needs it.
const SILENCE: Duration = Duration::from_secs(10);

fn with_sockets_that_notice(connection: ConnectionInfo) -> ConnectionInfo {
    let mut tcp = connection.tcp_settings().clone().set_nodelay(true);
    if tcp.keepalive().is_none() {
        tcp = tcp.set_keepalive(TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE / 4));
    }
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    if tcp.user_timeout().is_none() {
        tcp = tcp.set_user_timeout(SILENCE);
    }
    connection.set_tcp_settings(tcp)
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_gives_the_address_the_login_and_the_options() {
        let redis =
            Redis::from_url("redis://deploy:s%40crt@host:7000/3?prefix=app%3A&patience=250ms&lazy=true")
                .unwrap();
        let login = redis.connection.redis_settings();
        assert_eq!(redis.address(), "host:7000 (database 3)");
        assert_eq!((login.username(), login.password(), login.db()), (Some("deploy"), Some("s@crt"), 3));
        assert_eq!((redis.opening, redis.patience), (Opening::Lazy, Some(Duration::from_millis(250))));
        assert!(redis.connection.tcp_settings().nodelay());
        assert!(redis.connection.tcp_settings().keepalive().is_some());
        assert_eq!(Redis::from_url("valkey://[::1]").unwrap().address(), "::1:6379");
    }

    #[test]
    fn a_unix_sockets_login_stands_in_the_parameters() {
        for scheme in ["unix", "redis+unix", "valkey+unix"] {
            let redis =
                Redis::from_url(&format!("{scheme}:///run/r.sock?db=2&user=u&pass=p%20w&prefix=a")).unwrap();
            let login = redis.connection.redis_settings();
            assert_eq!(redis.address(), "/run/r.sock (database 2)");
            assert_eq!((login.username(), login.password()), (Some("u"), Some("p w")));
        }
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "redis://h?ttl=3s",
            "redis://h?protocol=resp3",
            "redis://h?ca=/x",
            "redis://h?user=u",
            "redis://h?lazy=yes",
            "redis://h?patience=5",
            "redis://h/x",
            "redis://h#insecure",
            "redis://",
            "http://h",
            "h",
            "unix:///s?db=x",
            "rediss://h?ca=/no/such/file",
            "rediss://h?cert=/only",
        ] {
            let error = Redis::from_url(bad).expect_err(bad);
            let expected = if cfg!(feature = "tls") || !bad.starts_with("rediss") {
                ErrorKind::Invalid
            } else {
                ErrorKind::Unsupported
            };
            assert_eq!(error.kind(), expected, "{bad}: {error}");
        }
    }

    #[test]
    fn nothing_tells_a_password() {
        for url in ["redis://u:hunter2@h:1/0", "redis://:hunter2@h", "unix:///s?pass=hunter2"] {
            let redis = Redis::from_url(url).unwrap();
            assert!(!format!("{redis:?} {}", redis.address()).contains("hunter2"));
        }
        for bad in [
            "redis://u:hunter2@h:1/x",
            "redis://u:hunter2@h:99999",
            "redis://u:hunter2@h?x=1",
            "redis://u:hunter2@",
        ] {
            let error = Redis::from_url(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn redis_own_options_are_taken_as_they_are() {
        let client = redis::Client::open("redis://u:p@h:1234/5").unwrap();
        let redis = Redis::from(&client).prefix("a:").unwrap();
        assert_eq!(redis.address(), "h:1234 (database 5)");
        assert_eq!(redis.connection.redis_settings().password(), Some("p"));
        assert_eq!(redis.opening, Opening::Waits);
    }
}
