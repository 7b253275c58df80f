//! The part of a URL between `://` and `?`: the login, the hosts and the path.

use std::fmt;

use super::{Location, unescape};
use crate::error::{Error, Result};

/// The user and the password of a URL, without `%` escapes. Its `Debug` leaves them out.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password. `None` if there is no `:` after the user.
    pub password: Option<String>,
}

/// One host of a URL. Its `Display` is `host:port`, with an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    name: String,
    port: u16,
}

impl Location {
    /// Returns the login before the hosts; `None` if there is no `@`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a broken `%` escape.
    pub fn login(&self) -> Result<Option<Login>> {
        let Some(login) = self.parts().login else { return Ok(None) };
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        Ok(Some(Login::new(unescape(user)?, password.map(unescape).transpose()?)))
    }

    /// Returns the hosts of `…://host[:port][,host[:port]…]`, at least one.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) as [`Host::parse`] says.
    pub fn hosts(&self, default_port: u16) -> Result<Vec<Host>> {
        self.parts().hosts.split(',').map(|host| Host::parse(host, default_port)).collect()
    }

    /// Returns what follows the hosts, from the first `/` on, as it is written; empty if nothing follows.
    pub fn path(&self) -> &str {
        self.parts().path
    }

    /// Returns the [base](Self::base) of a URL of this one host, with the same login and the same path.
    pub fn base_of(&self, scheme: &str, host: &Host) -> String {
        let Parts { login, path, .. } = self.parts();
        let (login, at) = login.map_or(("", ""), |login| (login, "@"));
        format!("{scheme}://{login}{at}{host}{path}")
    }

    fn parts(&self) -> Parts<'_> {
        let rest = self.base().split_once("://").map_or("", |(_, rest)| rest);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        match authority.rsplit_once('@') {
            Some((login, hosts)) => Parts { login: Some(login), hosts, path },
            None => Parts { login: None, hosts: authority, path },
        }
    }
}

/// The parts of a base, as they are written.
struct Parts<'a> {
    login: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
}

impl Login {
    /// Makes a login of text without `%` escapes, for URLs that have it in their parameters.
    pub fn new(user: String, password: Option<String>) -> Login {
        Login { user, password }
    }
}

impl Host {
    /// Parses `host` or `host:port`. An IPv6 address stands in brackets.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for any other text. The error does not quote it, because it may be a
    /// password after which the host was forgotten.
    pub fn parse(text: &str, default_port: u16) -> Result<Host> {
        let wrong = || Error::invalid("a server's address must be host or host:port");
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().map_err(|_| wrong())?),
            _ => (text, default_port),
        };
        let is_fine = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']' | '%');
        if name.is_empty() || port == 0 || !name.chars().all(is_fine) {
            return Err(wrong());
        }
        Ok(Host { name: name.to_owned(), port })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn location(url: &str) -> Location {
        Location::parse(url).unwrap()
    }

    fn hosts(url: &str) -> Vec<String> {
        location(url).hosts(7).unwrap().iter().map(Host::to_string).collect()
    }

    #[test]
    fn a_url_has_hosts_and_a_path() {
        let url = "x://u:p@h1:2380,h2,[::1]:7001,[fe80::1%eth0]/a/b?prefix=p";
        assert_eq!(hosts(url), ["h1:2380", "h2:7", "[::1]:7001", "[fe80::1%eth0]:7"]);
        assert_eq!((location(url).path(), location("x://h").path()), ("/a/b", ""));
        assert_eq!(hosts("x://h/"), ["h:7"]);
        for bad in ["x://", "x://h,", "x://h:0", "x://h:x", "x://h:99999", "x://h h", "x:///p", "h:1", "h"] {
            assert_eq!(location(bad).hosts(7).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }

    #[test]
    fn a_login_stands_before_the_hosts() {
        let login = |url: &str| location(url).login().unwrap();
        let of = |user: &str, password: Option<&str>| Some(Login::new(user.into(), password.map(Into::into)));
        let given = login("x://u%3A:s%40c:rt@h").unwrap();
        assert_eq!((given.user.as_str(), given.password.as_deref()), ("u:", Some("s@c:rt")));
        assert_eq!(login("x://:p@h"), of("", Some("p")));
        assert_eq!(login("x://u:@h"), of("u", Some("")));
        assert_eq!(login("x://u@h"), of("u", None));
        assert_eq!((login("x://h"), login("x:///a@b")), (None, None));
        for bad in ["x://u:%zz@h", "x://%+f:p@h", "x://u:%f@h", "x://u:%ff@h"] {
            assert_eq!(location(bad).login().expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
    }

    #[test]
    fn a_single_host_url_keeps_login_and_path() {
        let of_first = |url: &str| {
            let location = location(url);
            location.base_of("y", &location.hosts(7).unwrap()[0])
        };
        assert_eq!(of_first("x://u:s%40c@a,b/2?k=v"), "y://u:s%40c@a:7/2");
        assert_eq!(of_first("x://a:1,b"), "y://a:1");
    }

    #[test]
    fn what_may_be_a_password_is_not_quoted() {
        let login = location("x://u:hunter2@h").login().unwrap();
        assert!(!format!("{login:?}").contains("hunter2"));
        for error in [
            location("x://u:hunter2%zz@h").login().unwrap_err(),
            location("x://u:hunter2").hosts(7).unwrap_err(),
            location("x://u:p@,hunter2").hosts(7).unwrap_err(),
        ] {
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
