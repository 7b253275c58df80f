//! The settings of the connection to a server: from a URL, or from redis' own options.

use std::num::NonZeroU8;

use lock_core::toolkit::{CommonParameters, Location, Opening, Prefix};
use lock_core::{Client, Error, Options, Result};
use redis::{ConnectionAddr, ConnectionInfo};

use crate::cluster::ClusterDriver;
use crate::driver::RedisDriver;
use crate::layout::{Grace, Layout};
use crate::servers::{Servers, with_sockets_that_notice};

/// A Redis or Valkey server, or a primary with its replicas, and how to reach it.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_redis as redis; }
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use onelock::redis::{Options, Redis, redis};
/// let own = redis::Client::open("redis://127.0.0.1/")?;
/// let client = Redis::from(&own).prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Redis {
    pub(crate) servers: Servers,
    pub(crate) common: CommonParameters,
    pub(crate) layout: Layout,
    /// The number of replicas that have to acknowledge each grant and each renewal.
    pub(crate) acks: Option<NonZeroU8>,
}

const PARAMETERS: &str = "prefix, patience, connect_wait, lazy, layout, fenced, fair, grace, ack; with rediss:// also ca, cert, key; with unix:// also db, user, pass; with \
     redis+sentinel:// also sentinel_user, sentinel_password";

impl Redis {
    /// Parses a URL.
    ///
    /// `redis://[user:password@]host[:port][/db]`, `rediss://…` for TLS, `unix:///path/to/socket`; `valkey://`,
    /// `valkeys://`, `redis+unix://` and `valkey+unix://` mean the same.
    ///
    /// `redis://host1,host2,host3` names a primary and its replicas, in any order: the client takes the one that is the
    /// primary. `redis+sentinel://[user:password@]host1[:26379],host2,…/name[/db]` names sentinels, and the name of the
    /// primary in their configuration; `rediss+sentinel://` reaches sentinels and servers by TLS. `valkey+sentinel://`
    /// and `valkeys+sentinel://` mean the same. The user and the password are the servers'.
    /// `redis+cluster://[user:password@]host1,host2,…` names members of a cluster, which tell of the others;
    /// `rediss+cluster://`, `valkey+cluster://` and `valkeys+cluster://` likewise.
    ///
    /// Parameters: `prefix` (put before every name on the server), `patience` (how long one request may
    /// take), `connect_wait` (for how long opening tries again, like `30s`), `lazy=true` (opening doesn't
    /// wait for the server); `ack` (how many replicas acknowledge each grant, from 1 to 255:
    /// [`ack`](Redis::ack)); `layout=redisson` ([`Layout::Redisson`], and with `fenced=true` as well
    /// [`Layout::RedissonFenced`]); `fair=true` ([`Layout::Fair`], with `grace` for its [`Grace`]); with TLS
    /// `ca` (a PEM file of the roots to trust instead of the public ones), `cert` and `key` (PEM files of the
    /// client's certificate); on a Unix socket `db`, `user`, `pass`; with sentinels `sentinel_user`,
    /// `sentinel_password`.
    ///
    /// # Errors
    ///
    /// `Invalid` for any other parameter, for a file that can't be read, and for a text that is no URL of this form.
    /// `Unsupported` for TLS in a build without the feature `tls`.
    pub fn from_url(url: &str) -> Result<Redis> {
        let mut url = Location::parse(url)?;
        url.refuse_fragment()?;
        let mut servers = Servers::take(&mut url)?;
        if servers.use_tls() {
            servers = with_certificates(servers, &mut url)?;
        }
        if let Servers::One(server) = &mut servers
            && matches!(server.addr(), ConnectionAddr::Unix(_))
        {
            take_login(server, &mut url)?;
        }
        let (common, layout, acks) = (url.take_common()?, take_layout(&mut url)?, take_acks(&mut url)?);
        url.finish(PARAMETERS)?;
        Ok(Redis { servers, common, layout, acks })
    }

    /// Puts `prefix` before every name on the server.
    ///
    /// # Errors
    ///
    /// `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Redis> {
        self.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Stores the locks as `layout` says. All clients of the same locks have to use the same layout.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Redis {
        self.layout = layout;
        self
    }

    /// Makes each grant and each renewal wait until `replicas` replicas have it. A grant that they do not
    /// acknowledge in half of the patience is taken back, and the attempt is `Unavailable`.
    ///
    /// A failover to one of those replicas then loses no grant. With as many as can be promoted, no failover
    /// does, unless the promoted replica's clock is ahead of its primary's. A primary that is cut off from
    /// its replicas grants and renews nothing any more. It costs one more round trip, from the primary to its
    /// replicas ([`WAIT`](https://redis.io/docs/latest/commands/wait/)). It is no consensus: the fencing
    /// token remains what keeps two holders apart.
    #[must_use]
    pub fn ack(mut self, replicas: NonZeroU8) -> Redis {
        self.acks = Some(replicas);
        self
    }

    /// Makes [`open`](Redis::open) return without waiting for the server.
    ///
    /// If the server is not reachable or refuses, the first call returns that error instead.
    #[must_use]
    pub fn lazy(mut self) -> Redis {
        self.common.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless lazy, it waits until the server has answered, of several the primary, for one patience at most.
    /// It has to be called inside a tokio runtime, unless the options are [`dedicated`](Options::dedicated).
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server can't be reached, or has fewer replicas than have to [`ack`](Redis::ack);
    /// `Rejected` if it refuses this client or is older than Redis 6.2, or refuses `WAIT` where replicas have
    /// to acknowledge; `Unsupported` for TLS in a build without the feature `tls`, `Invalid` outside a tokio
    /// runtime or for a patience below 1 ms.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened. Connecting may go on in the background, for one patience at most.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.common.apply_to(options), self.address());
        match self.servers.clone() {
            Servers::Cluster(named) => {
                options
                    .open("redis", &address, |context| {
                        ClusterDriver::open(self.clone(), named.clone(), context)
                    })
                    .await
            }
            Servers::One(_) | Servers::Copies(_) | Servers::Watched(_) => {
                options.open("redis", &address, |context| RedisDriver::open(self.clone(), context)).await
            }
        }
    }

    /// Returns the server's address and database, for people; without user and password. Of several servers, all
    /// addresses; of sentinels, theirs and the primary's name.
    pub fn address(&self) -> String {
        self.servers.address()
    }
}

impl From<ConnectionInfo> for Redis {
    /// Takes a server as redis' own options describe it, without a prefix and not lazy. Its sockets always get nodelay.
    /// They get keepalive and a user timeout unless the options set their own.
    fn from(connection: ConnectionInfo) -> Redis {
        let servers = Servers::One(with_sockets_that_notice(connection));
        Redis { servers, common: CommonParameters::default(), layout: Layout::default(), acks: None }
    }
}

impl From<&redis::Client> for Redis {
    /// Takes the server of a client of redis' own. It copies the options and does not share the connections.
    fn from(client: &redis::Client) -> Redis {
        Redis::from(client.get_connection_info().clone())
    }
}

/// Reads the database, the user and the password from the parameters: the URL of a Unix socket has no other place for
/// them.
fn take_login(server: &mut ConnectionInfo, url: &mut Location) -> Result<()> {
    let mut login = server.redis_settings().clone();
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
    *server = server.clone().set_redis_settings(login);
    Ok(())
}

#[cfg(feature = "tls")]
fn with_certificates(servers: Servers, url: &mut Location) -> Result<Servers> {
    use lock_core::toolkit::{CertificateNames, Certificates, ClientCertificate};

    let Certificates { ca, client, .. } = url.take_certificates(&CertificateNames::default())?;
    let root_cert = ca.map(|ca| ca.text().into());
    let client_tls = client.map(|ClientCertificate { cert, key, .. }| redis::ClientTlsConfig {
        client_cert: cert.text().into(),
        client_key: key.text().into(),
    });
    if root_cert.is_none() && client_tls.is_none() {
        return Ok(servers);
    }
    let certificates = redis::TlsCertificates { client_tls, root_cert };
    servers.try_map(|server| {
        let client = redis::Client::build_with_tls(server, certificates.clone())
            .map_err(|e| Error::invalid(format!("ca, cert or key: {e}")).with_source(e))?;
        Ok(client.get_connection_info().clone())
    })
}

#[cfg(not(feature = "tls"))]
fn with_certificates(_: Servers, _: &mut Location) -> Result<Servers> {
    Err(crate::servers::without_tls())
}

fn take_acks(url: &mut Location) -> Result<Option<NonZeroU8>> {
    let Some(replicas) = url.take("ack") else { return Ok(None) };
    let wrong = |_| Error::invalid(format!("{}: it is a number from 1 to 255", url.shown("ack", &replicas)));
    replicas.parse().map(Some).map_err(wrong)
}

/// Takes `layout`, `fenced`, `fair` and `grace`, which are parts of one choice.
fn take_layout(url: &mut Location) -> Result<Layout> {
    let named = url.take("layout");
    let (fenced, fair, grace) =
        (url.take_flag("fenced")?, url.take_flag("fair")?, url.take_duration("grace")?);
    let is_redisson = match named.as_deref() {
        None | Some("own") => false,
        Some("redisson") => true,
        Some(other) => {
            return Err(Error::invalid(format!("{}: it is own or redisson", url.shown("layout", other))));
        }
    };
    match (is_redisson, fenced, fair, grace) {
        (true, false, false, None) => Ok(Layout::Redisson),
        (true, true, false, None) => Ok(Layout::RedissonFenced),
        (true, _, true, _) => Err(Error::invalid(
            "fair=true needs the own layout: with layout=redisson there is no order that Redisson keeps as well",
        )),
        (false, true, ..) => {
            Err(Error::invalid("fenced=true needs layout=redisson; the own layout has tokens without it"))
        }
        (false, false, true, grace) => grace.map_or(Ok(Grace::default()), Grace::new).map(Layout::Fair),
        (_, _, false, Some(_)) => Err(Error::invalid("grace needs fair=true")),
        (false, false, false, None) => Ok(Layout::Own),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_gives_address_login_and_options() {
        let redis =
            Redis::from_url("redis://deploy:s%40crt@host:7000/3?prefix=app%3A&patience=250ms&lazy=true")
                .unwrap();
        let login = redis.servers.login();
        assert_eq!(redis.address(), "host:7000 (database 3)");
        assert_eq!((login.username(), login.password(), login.db()), (Some("deploy"), Some("s@crt"), 3));
        let mut expected = CommonParameters::default();
        expected.prefix = Prefix::new("app:").unwrap();
        expected.patience = Some(Duration::from_millis(250));
        expected.opening = Opening::Lazy;
        assert_eq!(redis.common, expected);
        let Servers::One(server) = &redis.servers else { panic!("{redis:?}") };
        assert!(server.tcp_settings().nodelay());
        assert!(server.tcp_settings().keepalive().is_some());
        assert_eq!(Redis::from_url("valkey://[::1]").unwrap().address(), "::1:6379");
    }

    #[test]
    fn a_url_names_the_layout() {
        let layout = |query: &str| Redis::from_url(&format!("redis://h?{query}")).unwrap().layout;
        assert_eq!(layout("patience=1s"), Layout::Own);
        assert_eq!(layout("layout=own"), Layout::Own);
        assert_eq!(layout("layout=redisson"), Layout::Redisson);
        assert_eq!(layout("layout=redisson&fenced=1"), Layout::RedissonFenced);
        assert_eq!(layout("layout=redisson&fenced=false"), Layout::Redisson);
        assert_eq!(layout("fair=true"), Layout::Fair(Grace::default()));
        let second = Grace::new(Duration::from_secs(1)).unwrap();
        assert_eq!(layout("fair=1&grace=1s&layout=own"), Layout::Fair(second));
        assert_eq!(Redis::from_url("redis://h?ack=2").unwrap().acks, NonZeroU8::new(2));
    }

    #[test]
    fn a_unix_sockets_login_stands_in_the_parameters() {
        for scheme in ["unix", "redis+unix", "valkey+unix"] {
            let redis =
                Redis::from_url(&format!("{scheme}:///run/r.sock?db=2&user=u&pass=p%20w&prefix=a")).unwrap();
            let login = redis.servers.login();
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
            "redis://h?layout=jedis",
            "redis://h?fenced=true",
            "redis://h?fair=yes",
            "redis://h?grace=1s",
            "redis://h?fair=true&grace=99ms",
            "redis://h?fair=true&grace=61m",
            "redis://h?fair=true&layout=redisson",
            "redis://h?fair=true&fenced=true",
            "redis://h?layout=redisson&fenced=maybe",
            "redis://h?patience=5",
            "redis://h?ack=0",
            "redis://h?ack=256",
            "redis://h?ack=true",
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
        assert_eq!(redis.servers.login().password(), Some("p"));
        assert_eq!((redis.common.prefix.as_str(), redis.common.opening), ("a:", Opening::Waits));
    }
}
