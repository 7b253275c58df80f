//! The settings of the connection to a cluster: from a URL, or from etcd-client's own options.

use std::time::Duration;

use etcd_client::ConnectOptions;
use lock_core::toolkit::{CommonParameters, Host, HumanDuration, Location, Login, Opening, Prefix};
use lock_core::{Client, Error, Options, Result};

use crate::driver::EtcdDriver;
use crate::tls;

/// An etcd cluster, and how to reach it.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_etcd as etcd; }
/// # async fn example() -> lock_etcd::Result<()> {
/// use onelock::etcd::etcd_client::ConnectOptions;
/// use onelock::etcd::{Etcd, Options};
/// let own = ConnectOptions::new().with_user("deploy", "secret");
/// let client = Etcd::new(["10.0.0.1:2379", "10.0.0.2:2379"], own)?.prefix("billing/")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Etcd {
    /// `http://host:port`, or `https://…`.
    pub(crate) endpoints: Vec<String>,
    pub(crate) connecting: ConnectOptions,
    pub(crate) common: CommonParameters,
    pub(crate) election: Duration,
}

const PORT: u16 = 2379;
/// etcd's own default for `--election-timeout`.
const ELECTION: Duration = Duration::from_secs(1);
const PARAMETERS: &str =
    "prefix, patience, connect_wait, lazy, election, user, pass; with etcds:// also ca, cert, key";

impl Etcd {
    /// A cluster with members at these addresses, `host[:port]` or `http[s]://host[:port]`.
    ///
    /// `connecting` has etcd-client's own options. This library itself sets the keep-alive of connections, the
    /// requirement of a leader, and the renewal of login tokens.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no address, or if one is malformed.
    pub fn new<A: AsRef<str>>(
        addresses: impl IntoIterator<Item = A>,
        connecting: ConnectOptions,
    ) -> Result<Etcd> {
        let endpoints: Result<Vec<String>> =
            addresses.into_iter().map(|address| endpoint("http", address.as_ref())).collect();
        Etcd::of(endpoints?, connecting)
    }

    /// Reads a URL: `etcd://[user:password@]host[:port][,host[:port]…]`, or `etcds://…` for TLS.
    ///
    /// The default port is 2379. In the user and the password, characters with a meaning in URLs must be escaped (`%40`
    /// for `@`).
    ///
    /// Parameters:
    ///
    /// - `prefix`: stands before every name.
    /// - `patience`: how long one request may take.
    /// - `connect_wait`: for how long opening tries again while the server can\'t be reached, like `30s`.
    /// - `lazy=true`: opening does not wait for a server.
    /// - `election`: the servers' `--election-timeout`, 1 s by default. The shortest ttl is five times that, in whole
    ///   seconds.
    /// - `user` and `pass`: the login, if it does not stand before the hosts.
    /// - With TLS, `ca`: a PEM file of the roots to trust instead of the public ones.
    /// - With TLS, `cert` and `key`: PEM files of the client's certificate and its private key.
    ///
    /// # Errors
    ///
    /// `Invalid` for a malformed URL, for any other parameter, and for a file that cannot be read. `Unsupported` for
    /// `etcds://` in a build without the feature `tls`.
    pub fn from_url(url: &str) -> Result<Etcd> {
        let mut url = Location::parse(url)?;
        let scheme = match url.scheme() {
            "etcd" => "http",
            "etcds" => "https",
            other => {
                return Err(Error::invalid(format!(
                    "{other}: is not a URL of etcd; it begins with etcd:// or etcds://"
                )));
            }
        };
        if !url.path().trim_end_matches('/').is_empty() {
            return Err(Error::invalid("a URL of etcd has no path; write a prefix of the names as ?prefix="));
        }
        let hosts = url.hosts(PORT)?;
        let endpoints = hosts.iter().map(|host| format!("{scheme}://{host}")).collect();
        let mut connecting = ConnectOptions::new();
        if let Some(Login { user, password, .. }) = take_login(&mut url)? {
            connecting = connecting.with_user(user, password.unwrap_or_default());
        }
        if scheme == "https" {
            connecting = tls::take_certificates(&mut url, connecting)?;
        }
        let mut etcd = Etcd::of(endpoints, connecting)?;
        etcd.common = url.take_common()?;
        if let Some(election) = url.take_duration("election")? {
            etcd = etcd.election(election)?;
        }
        url.finish(PARAMETERS)?;
        Ok(etcd)
    }

    fn of(endpoints: Vec<String>, connecting: ConnectOptions) -> Result<Etcd> {
        if endpoints.is_empty() {
            return Err(Error::invalid("a cluster needs at least one address"));
        }
        Ok(Etcd { endpoints, connecting, common: CommonParameters::default(), election: ELECTION })
    }

    /// Sets the prefix that stands before every name.
    ///
    /// # Errors
    ///
    /// `Invalid` as described at [`Prefix::new`].
    pub fn prefix(mut self, prefix: &str) -> Result<Etcd> {
        self.common.prefix = Prefix::new(prefix)?;
        Ok(self)
    }

    /// Tells the library the servers' `--election-timeout`, because servers cannot be asked for it.
    ///
    /// The bounds are those of etcd, 10 ms to 50 s. The shortest ttl is five times the timeout, in whole seconds.
    ///
    /// # Errors
    ///
    /// `Invalid` outside of these bounds.
    pub fn election(mut self, timeout: Duration) -> Result<Etcd> {
        if !(Duration::from_millis(10)..=Duration::from_secs(50)).contains(&timeout) {
            return Err(Error::invalid(format!(
                "etcd's election timeout must be 10 ms to 50 s, not {}",
                HumanDuration(timeout)
            )));
        }
        self.election = timeout;
        Ok(self)
    }

    /// Makes [`open`](Self::open) return without waiting for a server.
    ///
    /// If no server can be reached, or one refuses, the first call of the client fails instead.
    #[must_use]
    pub fn lazy(mut self) -> Etcd {
        self.common.opening = Opening::Lazy;
        self
    }

    /// Opens a client.
    ///
    /// Unless lazy, this waits until a server has answered, for at most the patience.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no server can be reached. `Rejected` if the server refuses the login, or is older than etcd
    /// 3.4. `Unsupported` for TLS in a build without the feature `tls`. `Invalid` outside of a tokio runtime (unless
    /// the options are [`dedicated`](Options::dedicated)), and for a patience below 1 ms.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened, and nothing is left on the server. Connecting may go on in the
    /// background, for at most the patience.
    pub async fn open(self, options: Options) -> Result<Client> {
        let (options, address) = (self.common.apply_to(options), self.address());
        options.open("etcd", &address, |context| EtcdDriver::open(self.clone(), context)).await
    }

    /// Returns the members' addresses for users, without user and password.
    pub(crate) fn address(&self) -> String {
        let hosts: Vec<&str> = self.endpoints.iter().map(|url| without_scheme(url)).collect();
        hosts.join(",")
    }
}

impl std::fmt::Debug for Etcd {
    /// Leaves out the user and the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd")
            .field("endpoints", &self.endpoints)
            .field("common", &self.common)
            .field("election", &self.election)
            .finish_non_exhaustive()
    }
}

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, host)| host)
}

/// Returns an address with scheme and port, also if it lacked them. Errors do not repeat the address, because it may
/// contain a password by mistake.
fn endpoint(scheme: &str, address: &str) -> Result<String> {
    let (scheme, host) = match address.split_once("://") {
        Some((own @ ("http" | "https"), host)) => (own, host),
        Some(_) => {
            return Err(Error::invalid("a member's address must begin with http://, https:// or the host"));
        }
        None => (scheme, address),
    };
    let host = Host::parse(host.strip_suffix('/').unwrap_or(host), PORT)?;
    Ok(format!("{scheme}://{host}"))
}

/// Takes the login: before the hosts, or in the parameters.
fn take_login(url: &mut Location) -> Result<Option<Login>> {
    let in_parameters = match (url.take("user"), url.take("pass")) {
        (None, None) => None,
        (None, Some(_)) => return Err(Error::invalid("the URL has pass but no user; give both")),
        (Some(user), password) => Some(Login::new(user, password)),
    };
    match (url.login()?, in_parameters) {
        (Some(_), Some(_)) => Err(Error::invalid(
            "the URL has two logins: one before the hosts, and one in user and pass; give one",
        )),
        (before, in_parameters) => Ok(before.or(in_parameters)),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn a_url_gives_address_login_and_options() {
        let url = "etcd://deploy:s%40crt@h1:2380,h2,[::1]:7,[::1]/?prefix=app%2F&patience=250ms&lazy=true&election=200ms";
        let etcd = Etcd::from_url(url).unwrap();
        assert_eq!(etcd.address(), "h1:2380,h2:2379,[::1]:7,[::1]:2379");
        assert_eq!(etcd.endpoints[0], "http://h1:2380");
        let mut expected = CommonParameters::default();
        expected.prefix = Prefix::new("app/").unwrap();
        expected.patience = Some(Duration::from_millis(250));
        expected.opening = Opening::Lazy;
        assert_eq!((etcd.common, etcd.election), (expected, Duration::from_millis(200)));
        let options = format!("{:?}", etcd.connecting);
        assert!(options.contains("deploy") && options.contains("s@crt"), "{options}");
        let etcd = Etcd::from_url("etcd://h?user=u&pass=p%3F").unwrap();
        assert!(format!("{:?}", etcd.connecting).contains("p?"));
        let etcd = Etcd::new(["https://a", "b:1"], ConnectOptions::new()).unwrap();
        assert_eq!(etcd.endpoints, ["https://a:2379", "http://b:1"]);
    }

    #[test]
    fn what_is_not_known_is_not_ignored() {
        for bad in [
            "etcd://h?ttl=3s",
            "etcd://h?ca=/x",
            "etcd://h?pass=x",
            "etcd://h?lazy=yes",
            "etcd://h?patience=5",
            "etcd://h?election=1ms",
            "etcd://h?election=51s",
            "etcd://h:99999",
            "etcd://h/x",
            "etcd://h,",
            "etcd://",
            "etcd://%zz:p@h",
            "etcd://%+f:p@h",
            "etcd://u:p@h?user=u",
            "http://h",
            "h",
        ] {
            assert_eq!(Etcd::from_url(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
        let expected = if cfg!(feature = "tls") { ErrorKind::Invalid } else { ErrorKind::Unsupported };
        for bad in ["etcds://h?ca=/no/such/file", "etcds://h?cert=/only"] {
            assert_eq!(Etcd::from_url(bad).expect_err(bad).kind(), expected, "{bad}");
        }
    }

    #[test]
    fn nothing_tells_a_password() {
        for url in ["etcd://u:hunter2@h", "etcd://h?user=u&pass=hunter2"] {
            let etcd = Etcd::from_url(url).unwrap();
            assert!(!format!("{etcd:?} {}", etcd.address()).contains("hunter2"));
        }
        for bad in
            ["etcd://u:hunter2@h:x", "etcd://u:hunter2@h?x=1", "etcd://u:hunter2@", "etcd://u:hunter2/@h,@"]
        {
            let error = Etcd::from_url(bad).expect_err(bad);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
