//! The settings of the connection to an ensemble.

use std::time::Duration;

use lock_core::toolkit::{CommonParameters, Host, HumanDuration, Location, Login, Opening, Prefix, unescape};
use lock_core::{Client, Error, Options, Result};
use zookeeper_client::{Client as ZkClient, Connector};

use crate::driver::ZkDriver;
use crate::layout;
use crate::tls::Tls;

/// A ZooKeeper server or ensemble, how to reach it, and where in it the locks are.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_zk as zk; }
/// # async fn example() -> lock_core::Result<()> {
/// use onelock::zk::{Options, ZooKeeper};
/// let zookeeper = ZooKeeper::from_url("zk://deploy:secret@zk1,zk2,zk3/locks")?;
/// let client = zookeeper.prefix("billing-")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ZooKeeper {
    pub(crate) reach: Reach,
    /// The folder of the locks, never the root.
    pub(crate) chroot: String,
    pub(crate) common: CommonParameters,
    pub(crate) tick: Duration,
}

/// The servers, and how to log in there.
#[derive(Clone)]
pub(crate) struct Reach {
    /// The addresses, in the form of the `zookeeper-client` crate.
    pub(crate) servers: String,
    /// The addresses for display.
    hosts: String,
    login: Option<String>,
    tls: Option<Tls>,
    /// The time for which one server may be silent while there are others.
    silence: Option<Duration>,
}

/// The time that a leader's ping may take unless the URL says otherwise: ZooKeeper's own default tick.
pub(crate) const TICK: Duration = Duration::from_secs(2);
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// Longer folders leave no room for names in a request.
const LONGEST_CHROOT: usize = 4096;
const PORT: u16 = 2181;
const PARAMETERS: &str = "prefix, patience, connect_wait, lazy, tick, ca, cert, key";

impl ZooKeeper {
    /// The folder of the locks if the URL names none.
    ///
    /// Locks are never directly below the root: for each name there, ZooKeeper 3.6 and later keep figures for as long
    /// as the server runs (`DataTree.updateWriteStat` in ZooKeeper's source).
    pub const DEFAULT_FOLDER: &'static str = "/locks";

    /// Reads a URL: `zk://[user:password@]host[:port][,host[:port]…][/folder][?…]`, or `zks://…` for TLS with the
    /// feature `tls`.
    ///
    /// The folder is where the locks are, [`DEFAULT_FOLDER`](Self::DEFAULT_FOLDER) unless given; a client creates it if
    /// it is missing. User and password are those of ZooKeeper's scheme `digest`. Parameters: `prefix` (put before
    /// every name), `patience` (how long one request may take, like `500ms`), `connect_wait` (for how long opening tries again,
    /// like `30s`), `lazy=true` (opening doesn't wait for a
    /// server), `tick` (how long a ping within the ensemble takes at most, 2 s unless given: the servers' `tickTime`; the
    /// shortest ttl is four ticks), `ca` (a PEM file of the roots to trust, which turns TLS on), `cert` and `key` (PEM
    /// files of the client's certificate and its key).
    ///
    /// # Errors
    ///
    /// `Invalid` for any other parameter, for a file that can't be read, and for a text that is not such a URL.
    /// `Unsupported` for TLS without the feature `tls`, and if the program contains two TLS providers and has installed
    /// neither.
    pub fn from_url(url: &str) -> Result<ZooKeeper> {
        let mut url = Location::parse(url)?;
        if !matches!(url.scheme(), "zk" | "zks") {
            return Err(Error::invalid("not a ZooKeeper URL: it begins with zk:// or zks://"));
        }
        url.refuse_fragment()?;
        let login = url.login()?.map(digest_login).transpose()?;
        let tls = Tls::take(&mut url)?;
        let servers: Vec<String> = url.hosts(PORT)?.iter().map(Host::to_string).collect();
        let scheme = if tls.is_some() { "tcp+tls" } else { "tcp" };
        let silence = (servers.len() > 1).then_some(SILENCE);
        let cluster: Vec<String> = servers.iter().map(|server| format!("{scheme}://{server}")).collect();
        let reach = Reach { servers: cluster.join(","), hosts: servers.join(","), login, tls, silence };
        let tick = url.take_duration("tick")?.unwrap_or(TICK);
        if tick < SHORTEST_TICK {
            return Err(Error::invalid(format!("a tick is {} at least", HumanDuration(SHORTEST_TICK))));
        }
        let zookeeper =
            ZooKeeper { reach, chroot: parse_chroot(url.path())?, common: url.take_common()?, tick };
        url.finish(PARAMETERS)?;
        Ok(zookeeper)
    }

    /// Puts `prefix` before every name.
    ///
    /// # Errors
    ///
    /// `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<ZooKeeper> {
        self.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Makes [`open`](Self::open) return without waiting for a server.
    ///
    /// If no server can be reached, or it refuses this client, the first call returns that error instead. Until a server
    /// has answered which ttls it grants, [`Client::info`] shows the widest bounds, and a ttl outside of the server's own
    /// is `Invalid` when the lock is acquired.
    #[must_use]
    pub fn lazy(mut self) -> ZooKeeper {
        self.common.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless lazy, it waits, for one patience at most, until a server has answered which ttls it grants.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no server can be reached. `Rejected` if the server refuses this client. `Invalid` outside a
    /// tokio runtime, unless the options are [dedicated](Options::dedicated), and for a patience below 1 ms.
    /// `Unsupported` in a fork of a process that has opened a client.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped, no client is left.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.common.apply_to(options), self.address());
        options.open("zookeeper", &address, |context| ZkDriver::open(self.clone(), context)).await
    }

    /// Returns the ensemble's address for display, without user and password.
    pub fn address(&self) -> String {
        format!("{}{}", self.reach.hosts, self.chroot)
    }
}

/// The time for which one server may be silent while there are others: its connection may hang.
const SILENCE: Duration = Duration::from_millis(2500);

impl Reach {
    /// Returns a connector for a session with this timeout.
    pub(crate) fn connector(&self, timeout: Duration) -> Connector {
        let mut connector = ZkClient::connector().with_session_timeout(timeout).with_fail_eagerly();
        // The longest that the crate accepts. Heartbeats notice a dead connection sooner, and are not misled by a
        // process that stood still.
        let silence = timeout * 3 / 5;
        connector =
            connector.with_connection_timeout(self.silence.map_or(silence, |most| most.min(silence / 3)));
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        match &self.tls {
            Some(tls) => tls.configure(connector),
            None => connector,
        }
    }

    /// Returns whether the URL names a user. Then the nodes that this client creates are for that user alone.
    pub(crate) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }
}

impl std::fmt::Debug for Reach {
    /// Leaves out user and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reach").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// Returns the text of ZooKeeper's scheme `digest`.
fn digest_login(Login { user, password, .. }: Login) -> Result<String> {
    let password = password
        .ok_or_else(|| Error::invalid("the URL names a user without a password: zk://user:password@host/"))?;
    if user.is_empty() || user.contains(':') {
        return Err(Error::invalid("the URL's user is empty, or has a colon"));
    }
    Ok(format!("{user}:{password}"))
}

fn parse_chroot(path: &str) -> Result<String> {
    let path = unescape(path.trim_end_matches('/'))?;
    if path.is_empty() {
        return Ok(ZooKeeper::DEFAULT_FOLDER.to_owned());
    }
    let is_fine = |part: &str| {
        !matches!(part, "" | "." | "..") && part.chars().all(|c| c == '%' || !layout::is_refused(c))
    };
    if !path.split('/').skip(1).all(is_fine) {
        return Err(Error::invalid("the URL's path can't be a folder of ZooKeeper"));
    }
    if path.len() > LONGEST_CHROOT {
        return Err(Error::invalid(format!("the URL's folder is longer than {LONGEST_CHROOT} bytes")));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_gives_address_login_and_options() {
        let zk = ZooKeeper::from_url(
            "zk://deploy:s%40crt@h1,h2:2182,[::1]:7/app/locks/?prefix=a&patience=250ms&tick=500ms",
        )
        .unwrap();
        assert_eq!(zk.address(), "h1:2181,h2:2182,[::1]:7/app/locks");
        assert_eq!(zk.reach.servers, "tcp://h1:2181,tcp://h2:2182,tcp://[::1]:7");
        assert_eq!(zk.reach.login.as_deref(), Some("deploy:s@crt"));
        assert_eq!(
            (zk.tick, zk.common.patience),
            (Duration::from_millis(500), Some(Duration::from_millis(250)))
        );
        assert_eq!((zk.chroot.as_str(), zk.common.prefix.as_str()), ("/app/locks", "a"));
        assert_eq!(zk.common.opening, Opening::Waits);
        assert_eq!(ZooKeeper::from_url("zk://h?lazy=true").unwrap().common.opening, Opening::Lazy);
        let plain = ZooKeeper::from_url("zk://h").unwrap();
        assert_eq!(
            (plain.address().as_str(), plain.tick, plain.reach.has_login()),
            ("h:2181/locks", TICK, false)
        );
        for same in ["zk://h", "zk://h/", "zk://h//?tick=1s", "zk://h/locks", "zk://h/locks/"] {
            assert_eq!(ZooKeeper::from_url(same).unwrap().chroot, "/locks", "{same}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "zk://h?ttl=3s",
            "zk://h?lazy=yes",
            "zk://h?patience=5",
            "zk://h?tick=0s",
            "zk://h//x",
            "zk://h/./x",
            "zk://h/a%00",
            "zk://h#x",
            "zk://",
            "zk://h,",
            "zk://h:x",
            "zk://h:0",
            "zk://user@h",
            "zk://:p@h",
            "zk:h",
            "http://h",
            "h",
        ] {
            let error = ZooKeeper::from_url(bad).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}: {error}");
        }
    }

    #[test]
    fn nothing_tells_a_password() {
        let zk = ZooKeeper::from_url("zk://u:hunter2@h/x").unwrap();
        assert!(!format!("{zk:?} {}", zk.address()).contains("hunter2"));
        for bad in ["zk://u:hunter2@h?x=1", "zk://u:hunter2@", "zk://u:hunter2%f@h", "zk://u:hunter2@h:x"] {
            let error = ZooKeeper::from_url(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_build_without_tls_says_so() {
        for url in ["zks://h", "zk://h?ca=/x"] {
            assert_eq!(ZooKeeper::from_url(url).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
