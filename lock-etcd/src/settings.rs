//! How a cluster is reached: from a URL, or from etcd-client's own options.

use std::time::Duration;

use etcd_client::ConnectOptions;
use lock_core::driver::{Location, Prefix};
use lock_core::{Client, Error, Options, Result};

use crate::driver::EtcdDriver;
use crate::tls;

/// An etcd cluster, and how to reach it.
///
/// ```no_run
/// # async fn example() -> lock_etcd::Result<()> {
/// use lock_etcd::etcd_client::ConnectOptions;
/// use lock_etcd::{Etcd, Options};
/// let own = ConnectOptions::new().with_user("deploy", "secret");
/// let client = Etcd::new(["10.0.0.1:2379", "10.0.0.2:2379"], own)?.prefix("billing/")?.open(Options::default()).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Etcd {
    /// `http://host:port`, or `https://…`.
    pub(crate) endpoints: Vec<String>,
    pub(crate) connecting: ConnectOptions,
    pub(crate) prefix: Prefix,
    pub(crate) opening: Opening,
    pub(crate) election: Duration,
    patience: Option<Duration>,
}

/// Whether opening waits for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Waits,
    Lazy,
}

const PORT: u16 = 2379;
/// etcd's own default for `--election-timeout`.
const ELECTION: Duration = Duration::from_secs(1);
const PARAMETERS: &str = "prefix, patience, lazy, election, user, pass; with etcds:// also ca, cert, key";

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
        let (login, hosts) = split(&url)?;
        let endpoints: Result<Vec<String>> = hosts.split(',').map(|host| endpoint(scheme, host)).collect();
        let mut connecting = ConnectOptions::new();
        let login = match (login, take_login(&mut url)?) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "the URL has two logins: one before the hosts, and one in user and pass; give one",
                ));
            }
            (login, parameters) => login.or(parameters),
        };
        if let Some((user, password)) = login {
            connecting = connecting.with_user(user, password);
        }
        if scheme == "https" {
            connecting = tls::take_certificates(&mut url, connecting)?;
        }
        let mut etcd = Etcd::of(endpoints?, connecting)?;
        etcd.prefix = url.take_prefix()?;
        etcd.patience = url.take_duration("patience")?;
        etcd.opening = take_opening(&mut url)?;
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
        let (prefix, opening, election) = (Prefix::default(), Opening::Waits, ELECTION);
        Ok(Etcd { endpoints, connecting, prefix, opening, election, patience: None })
    }

    /// Sets the prefix that stands before every name.
    ///
    /// # Errors
    ///
    /// `Invalid` as described at [`Prefix::new`].
    pub fn prefix(mut self, prefix: &str) -> Result<Etcd> {
        self.prefix = Prefix::new(prefix)?;
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
                "etcd's election timeout must be 10 ms to 50 s, not {timeout:?}"
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
        self.opening = Opening::Lazy;
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
        let options = match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        };
        let address = self.address();
        options.open("etcd", &address, |context| EtcdDriver::open(self, context)).await
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
            .field("prefix", &self.prefix)
            .field("opening", &self.opening)
            .field("election", &self.election)
            .field("patience", &self.patience)
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
    let host = host.strip_suffix('/').unwrap_or(host);
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port.parse::<u16>().ok()),
        _ => (host, Some(PORT)),
    };
    let is_host = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']' | '%');
    match port {
        Some(port) if !name.is_empty() && name.chars().all(is_host) => {
            Ok(format!("{scheme}://{name}:{port}"))
        }
        _ => Err(Error::invalid("a member's address must be host or host:port")),
    }
}

type Login = (String, String);

/// Splits a URL into the login and the hosts.
fn split(url: &Location) -> Result<(Option<Login>, String)> {
    let base = without_scheme(url.base());
    let Some((login, hosts)) = base.rsplit_once('@') else {
        return Ok((None, base.trim_end_matches('/').to_owned()));
    };
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let login = (unescape(user)?, unescape(password)?);
    Ok((Some(login), hosts.trim_end_matches('/').to_owned()))
}

/// Decodes `%` escapes: `%40` is `@`.
fn unescape(text: &str) -> Result<String> {
    let wrong = || Error::invalid("a broken % escape in the URL's user or password");
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let (code, rest) = part.split_at_checked(2).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(code, 16).map_err(|_| wrong())?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

fn take_login(url: &mut Location) -> Result<Option<Login>> {
    match (url.take("user"), url.take("pass")) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(Error::invalid("the URL has pass but no user; give both")),
        (Some(user), password) => Ok(Some((user, password.unwrap_or_default()))),
    }
}

fn take_opening(url: &mut Location) -> Result<Opening> {
    match url.take("lazy").as_deref() {
        None | Some("false") => Ok(Opening::Waits),
        Some("true") => Ok(Opening::Lazy),
        Some(other) => {
            Err(Error::invalid(format!("{}: the value must be true or false", url.shown("lazy", other))))
        }
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
        assert_eq!((etcd.opening, etcd.patience), (Opening::Lazy, Some(Duration::from_millis(250))));
        assert_eq!((etcd.prefix.as_str(), etcd.election), ("app/", Duration::from_millis(200)));
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
