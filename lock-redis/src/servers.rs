//! The servers of one client, and their names in a URL.

use lock_core::toolkit::{Host, Location, Login, unescape};
use lock_core::{Error, Result};
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

use std::time::Duration;

/// The servers that a client has to do with.
#[derive(Clone, Debug)]
pub(crate) enum Servers {
    /// One server, whatever its role is.
    One(ConnectionInfo),
    /// Servers that are copies of one of them, the primary.
    Copies(Vec<ConnectionInfo>),
    /// Servers that sentinels watch, and that only they name.
    Watched(Watched),
    /// Members of a cluster, which name the others.
    Cluster(Vec<ConnectionInfo>),
}

/// A primary and its replicas, as sentinels know them.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) sentinels: Vec<ConnectionInfo>,
    /// The name of the primary in the sentinels' configuration.
    pub(crate) service: String,
    /// The settings of a connection to each of the servers. Its address is a sentinel's, and is replaced by the one
    /// that they tell.
    pub(crate) primary: ConnectionInfo,
}

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl Servers {
    /// Reads the servers and their login from what stands before the `?`, and the sentinels' login from the parameters.
    pub(crate) fn take(url: &mut Location) -> Result<Servers> {
        #[cfg(not(feature = "tls"))]
        if matches!(url.scheme().trim_end_matches(SENTINEL).trim_end_matches(CLUSTER), "rediss" | "valkeys") {
            return Err(without_tls());
        }
        if let Some(scheme) = url.scheme().strip_suffix(SENTINEL) {
            let scheme = scheme.to_owned();
            return Watched::take(url, &scheme).map(Servers::Watched);
        }
        if let Some(scheme) = url.scheme().strip_suffix(CLUSTER) {
            let scheme = scheme.to_owned();
            let of_host = |host| server(&url.base_of(&scheme, &host));
            let members: Result<Vec<_>> = url.hosts(PORT)?.into_iter().map(of_host).collect();
            let members = members?;
            if members[0].redis_settings().db() != 0 {
                return Err(Error::invalid("a cluster has one database: leave the number out of the URL"));
            }
            return Ok(Servers::Cluster(members));
        }
        if !names_several(url) {
            return server(url.base()).map(Servers::One);
        }
        let of_host = |host| server(&url.base_of(url.scheme(), &host));
        let servers: Result<_> = url.hosts(PORT)?.into_iter().map(of_host).collect();
        servers.map(Servers::Copies)
    }

    /// Returns the servers' address and database, for people; without user and password.
    pub(crate) fn address(&self) -> String {
        let addresses = match self {
            Servers::One(server) => server.addr().to_string(),
            Servers::Copies(servers) => list(servers),
            Servers::Cluster(members) => format!("the cluster of {}", list(members)),
            Servers::Watched(watched) => {
                format!("{} of the sentinels {}", watched.service, list(&watched.sentinels))
            }
        };
        match self.login().db() {
            0 => addresses,
            db => format!("{addresses} (database {db})"),
        }
    }

    /// Returns how a client logs in to each of the servers.
    pub(crate) fn login(&self) -> &RedisConnectionInfo {
        let server = match self {
            Servers::One(server) => server,
            // A URL has a host at least.
            Servers::Copies(servers) | Servers::Cluster(servers) => &servers[0],
            Servers::Watched(watched) => &watched.primary,
        };
        server.redis_settings()
    }

    /// Returns whether a URL says of these servers that they are reached by TLS.
    pub(crate) fn use_tls(&self) -> bool {
        let server = match self {
            Servers::One(server) => server,
            Servers::Copies(servers) | Servers::Cluster(servers) => &servers[0],
            Servers::Watched(watched) => &watched.primary,
        };
        matches!(server.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Replaces each connection, those to sentinels as well, by what `change` makes of it.
    #[cfg(feature = "tls")]
    pub(crate) fn try_map(
        self,
        change: impl Fn(ConnectionInfo) -> Result<ConnectionInfo>,
    ) -> Result<Servers> {
        let all = |servers: Vec<_>| servers.into_iter().map(&change).collect::<Result<Vec<_>>>();
        Ok(match self {
            Servers::One(server) => Servers::One(change(server)?),
            Servers::Copies(servers) => Servers::Copies(all(servers)?),
            Servers::Cluster(members) => Servers::Cluster(all(members)?),
            Servers::Watched(Watched { sentinels, service, primary }) => {
                Servers::Watched(Watched { sentinels: all(sentinels)?, service, primary: change(primary)? })
            }
        })
    }
}

const SENTINEL: &str = "+sentinel";
const CLUSTER: &str = "+cluster";

impl Watched {
    /// Reads `…://[user:password@]host[:port][,…]/service[/database]`. `scheme` is the scheme of one server.
    fn take(url: &mut Location, scheme: &str) -> Result<Watched> {
        let (service, database) = service_and_database(url.path())?;
        let hosts = url.hosts(SENTINEL_PORT)?;
        let at = |host: &Host| server(&format!("{scheme}://{host}"));
        let mut login = at(&hosts[0])?.redis_settings().clone().set_db(database);
        if let Some(given) = url.login()? {
            login = logged_in(login, given);
        }
        let primary = at(&hosts[0])?.set_redis_settings(login);
        let (user, password) = (url.take("sentinel_user"), url.take("sentinel_password"));
        let given = Login::new(user.unwrap_or_default(), password);
        let sentinel = |host: &Host| {
            let sentinel = at(host)?;
            let login = logged_in(sentinel.redis_settings().clone(), given.clone());
            Ok(sentinel.set_redis_settings(login))
        };
        let sentinels: Result<_> = hosts.iter().map(sentinel).collect();
        Ok(Watched { sentinels: sentinels?, service, primary })
    }

    /// Returns how the server at this address is reached.
    pub(crate) fn server_at(&self, host: String, port: u16) -> ConnectionInfo {
        at_address(&self.primary, host, port)
    }
}

/// Returns the way to another address with the same login, and by TLS if `server` is reached by it.
pub(crate) fn at_address(server: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let address = match server.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            let (insecure, tls_params) = (*insecure, tls_params.clone());
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    server.clone().set_addr(address)
}

fn service_and_database(path: &str) -> Result<(String, i64)> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (service, database) = path.split_once('/').unwrap_or((path, ""));
    let service = unescape(service)?;
    if service.is_empty() || service.contains(char::is_whitespace) {
        return Err(Error::invalid(
            "a URL of sentinels has the primary's name in their configuration after the hosts: \
             redis+sentinel://host1,host2,host3/mymaster",
        ));
    }
    let database = match database.trim_end_matches('/') {
        "" => 0,
        // Not quoted: it may be a piece of a password.
        number => number.parse().map_err(|_| {
            Error::invalid(
                "in a URL of sentinels, a database number may follow the primary's name, no other text",
            )
        })?,
    };
    Ok((service, database))
}

fn logged_in(mut connection: RedisConnectionInfo, given: Login) -> RedisConnectionInfo {
    if !given.user.is_empty() {
        connection = connection.set_username(given.user);
    }
    match given.password {
        Some(password) => connection.set_password(password),
        None => connection,
    }
}

/// Returns whether there is a comma between the login and the path.
fn names_several(url: &Location) -> bool {
    let authority = url.base().split_once("://").and_then(|(_, rest)| rest.split('/').next());
    authority.and_then(|authority| authority.rsplit('@').next()).is_some_and(|hosts| hosts.contains(','))
}

fn server(base: &str) -> Result<ConnectionInfo> {
    let server = base.into_connection_info();
    server.map(with_sockets_that_notice).map_err(|e| {
        // It names the part that is wrong, never the URL.
        let why = e.to_string();
        let part = why.split(" - ").next().unwrap_or_default();
        let what = format!("no Redis URL: {part}; write redis://user:password@host:port/database");
        Error::invalid(what).with_source(e)
    })
}

fn list(servers: &[ConnectionInfo]) -> String {
    servers.iter().map(|server| server.addr().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(not(feature = "tls"))]
pub(crate) fn without_tls() -> Error {
    Error::unsupported("this build of lock-redis can't do TLS: its feature `tls` is off")
}

/// The time for which a peer may be silent before its connection counts as dead. No call waits for this: a dead
/// connection is to be noticed before a call needs it.
const SILENCE: Duration = Duration::from_secs(10);

/// Sets nodelay. Sets keepalive and a user timeout, unless the options have their own.
pub(crate) fn with_sockets_that_notice(connection: ConnectionInfo) -> ConnectionInfo {
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
    use super::*;

    fn taken(url: &str) -> Result<Servers> {
        let mut url = Location::parse(url)?;
        let servers = Servers::take(&mut url)?;
        url.finish("")?;
        Ok(servers)
    }

    #[test]
    fn listed_hosts_share_one_login_and_database() {
        let servers = taken("redis://u:s%40c@a:7000,b,[::1]:7001/3").unwrap();
        assert_eq!(servers.address(), "a:7000, b:6379, ::1:7001 (database 3)");
        let Servers::Copies(servers) = servers else { panic!("{servers:?}") };
        for server in servers {
            let login = server.redis_settings();
            assert_eq!((login.username(), login.password(), login.db()), (Some("u"), Some("s@c"), 3));
            assert!(server.tcp_settings().nodelay());
        }
        assert!(matches!(taken("redis://u:a,b@h").unwrap(), Servers::One(_)), "the comma is the password's");
        for bad in ["redis://a,", "redis://,a", "redis://a,b:x", "redis://a,b:99999", "redis://a,b/x"] {
            assert!(taken(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_malformed_url_is_told_its_form() {
        for bad in ["redis://u:pa@h:port", "redis://", "redis://h/x"] {
            let error = taken(bad).unwrap_err().to_string();
            assert!(error.contains("host:port/database"), "{bad}: {error}");
            assert!(!error.contains("pa@") && !error.contains("ClientConfig"), "{bad}: {error}");
        }
    }

    #[test]
    fn sentinels_have_their_own_login_and_name_primaries() {
        let servers =
            taken("redis+sentinel://u:p%2Fw@a,b:7000/my%20m/2?sentinel_user=watch&sentinel_password=p%26s");
        assert!(servers.is_err(), "a name with a space");
        let url = "valkey+sentinel://u:p%2Fw@a,b:7000/mymaster/2?sentinel_user=watch&sentinel_password=p%26s";
        let servers = taken(url).unwrap();
        assert_eq!(servers.address(), "mymaster of the sentinels a:26379, b:7000 (database 2)");
        let Servers::Watched(watched) = servers else { panic!("{servers:?}") };
        let primary = watched.server_at("10.0.0.1".to_owned(), 6380);
        assert_eq!(primary.addr().to_string(), "10.0.0.1:6380");
        let login = primary.redis_settings();
        assert_eq!((login.username(), login.password(), login.db()), (Some("u"), Some("p/w"), 2));
        for sentinel in watched.sentinels {
            let login = sentinel.redis_settings();
            assert_eq!((login.username(), login.password(), login.db()), (Some("watch"), Some("p&s"), 0));
        }
    }

    #[test]
    fn a_sentinel_url_without_name_says_so() {
        for bad in ["redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a//2"] {
            let error = taken(bad).unwrap_err();
            assert!(error.message().contains("name"), "{bad}: {error}");
        }
        for bad in ["redis+sentinel://a/m/x", "redis+sentinel://a/m/1/2", "redis+sentinel:///m"] {
            assert!(taken(bad).is_err(), "{bad}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_covers_sentinels_and_their_primaries() {
        for url in ["rediss+sentinel://a/m", "valkeys+sentinel://a/m"] {
            let Servers::Watched(watched) = taken(url).unwrap() else { panic!("{url}") };
            let is_tls = |server: &ConnectionInfo| matches!(server.addr(), ConnectionAddr::TcpTls { .. });
            assert!(watched.sentinels.iter().all(is_tls) && is_tls(&watched.server_at("b".into(), 1)));
        }
    }
}
