//! The settings of the connections to the nodes: from a URL, or from lock-redis' own options.

use std::time::Duration;

use lock_core::toolkit::{CommonParameters, HumanDuration, Location, Opening, Prefix};
use lock_core::{Client, Error, ErrorKind, Options, Result};
use lock_redis::Redis;

use crate::driver::RedlockDriver;

/// An odd number of independent Redis or Valkey servers, of which a majority decides.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_redlock as redlock; }
/// # async fn example() -> lock_core::Result<()> {
/// use onelock::redlock::{Options, Redis, Redlock};
/// let nodes = ["redis://a/", "redis://b/", "redis://c/"].map(Redis::from_url);
/// let nodes = nodes.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let client = Redlock::of(nodes)?.prefix("billing:")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Redlock {
    pub(crate) nodes: Vec<Redis>,
    pub(crate) common: CommonParameters,
    pub(crate) max_ttl: Duration,
    pub(crate) node_patience: Duration,
}

/// The default of [`Redlock::max_ttl`].
const MAX_TTL: Duration = Duration::from_secs(30);
/// The default of [`Redlock::node_patience`]: many times what an answer takes on a local network.
const NODE_PATIENCE: Duration = Duration::from_millis(50);
/// The most servers that are allowed. More have not been tried.
const MOST_NODES: usize = 15;

/// The port of a node that the URL names without one.
const PORT: u16 = 6379;

const PARAMETERS: &str =
    "max_ttl, node_patience, prefix, patience, connect_wait, lazy; with redlocks:// also ca, cert, key";

impl Redlock {
    /// Parses a URL: `redlock://[user:password@]host1[:port],host2[:port],…[/db]`; `redlocks://…` for TLS.
    ///
    /// Parameters: `max_ttl` (the longest ttl, and how long a node that may have forgotten locks has no vote; 30 s; all
    /// clients of the nodes must agree on it), `node_patience` (how long one node may take for one answer; 50 ms),
    /// `prefix` (put before every name on the servers), `patience` (how long one request of a lock may take),
    /// `connect_wait` (for how long opening tries again,
    /// like `30s`), `lazy=true` (opening doesn't wait for the servers); with TLS `ca`, `cert`, `key` as for one server.
    ///
    /// # Errors
    ///
    /// `Invalid` for any other parameter and for an even number of hosts; otherwise those of [`Redlock::of`] and
    /// [`Redis::from_url`].
    pub fn from_url(url: &str) -> Result<Redlock> {
        let mut location = Location::parse(url)?;
        let scheme = match location.scheme() {
            "redlock" => "redis",
            "redlocks" => "rediss",
            other => return Err(Error::invalid(format!("{other}:// is neither redlock:// nor redlocks://"))),
        };
        let certificates = location.take_query(&["ca", "cert", "key"]);
        let question_mark = if certificates.is_empty() { "" } else { "?" };
        let node = |host| {
            let base = location.base_of(scheme, &host);
            Redis::from_url(&format!("{base}{question_mark}{certificates}"))
        };
        let nodes: Result<_> = location.hosts(PORT)?.into_iter().map(node).collect();
        let mut redlock = Redlock::of(nodes.map_err(|e| unquoted(&location, e))?)?;
        redlock.common = location.take_common()?;
        if let Some(max_ttl) = location.take_duration("max_ttl")? {
            redlock = redlock.max_ttl(max_ttl)?;
        }
        if let Some(node_patience) = location.take_duration("node_patience")? {
            redlock = redlock.node_patience(node_patience)?;
        }
        location.finish(PARAMETERS)?;
        Ok(redlock)
    }

    /// Takes these nodes, each of which is asked by itself.
    ///
    /// No two may be the same server, or replicas of one another. A prefix or a patience that they have is not used.
    ///
    /// # Errors
    ///
    /// `Invalid` unless there is an odd number of nodes, from 3 to 15, and no two have the same address. Only
    /// [`open`](Redlock::open) finds out whether two addresses lead to one server.
    pub fn of(nodes: Vec<Redis>) -> Result<Redlock> {
        if nodes.len() < 3 || nodes.len() > MOST_NODES || nodes.len().is_multiple_of(2) {
            return Err(Error::invalid(format!(
                "{} servers: an odd number from 3 to {MOST_NODES}, so that a majority of them decides; for one server use \
                 redis://",
                nodes.len()
            )));
        }
        let mut addresses: Vec<String> = nodes.iter().map(Redis::address).collect();
        addresses.sort_unstable();
        if let Some(pair) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(format!("{} is named twice: a server has one vote", pair[0])));
        }
        let common = CommonParameters::default();
        Ok(Redlock { nodes, common, max_ttl: MAX_TTL, node_patience: NODE_PATIENCE })
    }

    /// Puts `prefix` before every name on the servers.
    ///
    /// # Errors
    ///
    /// `Invalid` as [`Prefix::new`] says.
    pub fn prefix(mut self, prefix: &str) -> Result<Redlock> {
        self.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Sets the longest ttl, which is also how long a node that may have forgotten locks has no vote; 30 s by default.
    ///
    /// All clients of the nodes must agree on it; `lock init` changes it.
    ///
    /// # Errors
    ///
    /// `Invalid` unless it is from 100 ms to a day, in whole milliseconds.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Result<Redlock> {
        let allowed = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
        if !allowed.contains(&max_ttl) || !max_ttl.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(Error::invalid(format!(
                "max_ttl is {}; it must be from 100 ms to a day, in whole milliseconds",
                HumanDuration(max_ttl)
            )));
        }
        self.max_ttl = max_ttl;
        Ok(self)
    }

    /// Sets how long one node may take for one answer; 50 ms by default.
    ///
    /// # Errors
    ///
    /// `Invalid` unless it is from 1 ms to 5 s.
    pub fn node_patience(mut self, patience: Duration) -> Result<Redlock> {
        if !(Duration::from_millis(1)..=Duration::from_secs(5)).contains(&patience) {
            return Err(Error::invalid(format!(
                "node_patience is {}; it must be from 1 ms to 5 s",
                HumanDuration(patience)
            )));
        }
        self.node_patience = patience;
        Ok(self)
    }

    /// Makes [`open`](Redlock::open) return without waiting for the servers.
    ///
    /// If no majority can be reached, or too many servers refuse, the first call returns that error instead.
    #[must_use]
    pub fn lazy(mut self) -> Redlock {
        self.common.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless lazy, it waits until a majority of the servers has answered, for one patience at most. Then it waits for
    /// the other servers, as long as one node may take for an answer. It has to be called inside a tokio runtime, unless
    /// the options are [`dedicated`](Options::dedicated).
    ///
    /// # Errors
    ///
    /// `Unavailable` if no majority can be reached, `Rejected` if so many servers refuse this client that the others
    /// are no majority, `Invalid` if two of the addresses lead to one server. A server whose answer comes too late for
    /// this check is checked at its first request. `Invalid` also outside a tokio runtime and for a patience below 1
    /// ms.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened. Connecting may go on in the background, for one patience at most.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.common.apply_to(options), self.address());
        options.open("redlock", &address, |context| RedlockDriver::open(self.clone(), context)).await
    }

    /// Returns the servers' addresses, for people; without user and password.
    pub(crate) fn address(&self) -> String {
        self.nodes.iter().map(Redis::address).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the error for a node's URL, which has only the certificates' parameters. If the whole URL contains a secret,
/// the error quotes nothing.
fn unquoted(location: &Location, error: Error) -> Error {
    match location.has_a_secret() && error.kind() == ErrorKind::Invalid {
        true => Error::invalid("a node's address can't be used, or ca, cert or key can't"),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_all_nodes() {
        let url = "redlock://u:s%2Ccret@a:7000,b,[::1]:7001/2?max_ttl=10s&node_patience=5ms&prefix=app%3A";
        let redlock = Redlock::from_url(url).unwrap();
        assert_eq!(redlock.address(), "a:7000 (database 2), b:6379 (database 2), ::1:7001 (database 2)");
        assert_eq!(
            (redlock.max_ttl, redlock.node_patience),
            (Duration::from_secs(10), Duration::from_millis(5))
        );
        assert_eq!((redlock.common.prefix.as_str(), redlock.common.opening), ("app:", Opening::Waits));
        let lazy = Redlock::from_url("redlock://a,b,c?lazy=true&patience=2s").unwrap();
        assert_eq!(
            (lazy.common.opening, lazy.common.patience),
            (Opening::Lazy, Some(Duration::from_secs(2)))
        );
        assert!(!format!("{redlock:?}").contains("cret"));
    }

    #[test]
    #[cfg(feature = "tls")]
    fn a_files_name_may_have_any_character() {
        for file in ["/no/such folder/a&b=c", "/no/such/a%b?c"] {
            let escaped: String = file.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let error = Redlock::from_url(&format!("redlocks://a,b,c?ca={escaped}")).unwrap_err();
            assert!(error.message().starts_with(&format!("ca={file} can't be read")), "{error}");
        }
    }

    #[test]
    fn what_is_no_majority_is_refused() {
        for bad in [
            "redlock://a",
            "redlock://a,b",
            "redlock://a,b,c,d",
            "redlock://a,b,a:6379",
            "redlock://a,b,",
            "redlock://a,b,c?max_ttl=1ms",
            "redlock://a,b,c?ttl=1s",
            "redlock://a,b,c?lazy=yes",
            "redlock://a,b,c?ca=/x",
            "redis://a,b,c",
        ] {
            let error = Redlock::from_url(bad).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}: {error}");
        }
    }
}
