//! URLs: what every backend reads of them in the same way. A parameter that was not read by the end is an error.

mod authority;
mod certificates;
mod common;
mod escapes;

use std::time::Duration;

use self::escapes::{decode, escape};
use crate::error::{Error, Result};
use crate::name::Prefix;

pub use authority::{Host, Login};
pub use certificates::{
    CertificateNames, Certificates, ClientCertificate, PemBlock, PemFile, certificate_advice,
};
pub use common::{CommonParameters, Opening};
pub use escapes::unescape;

/// A URL in its parts: the text before the `?`, and the parameters after it, which are taken one by one.
#[derive(Clone)]
pub struct Location {
    base: String,
    parameters: Vec<(String, String)>,
    quoting: Quoting,
}

impl Location {
    /// Parses a URL. The scheme is read without regard to case, as RFC 3986 says.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid)
    ///
    /// - for a parameter without a value, or one that is given twice,
    /// - for a broken `%` escape,
    /// - for an `@` after the host: then a character of a password was not escaped, and it is unclear what the URL
    ///   means.
    pub fn parse(url: &str) -> Result<Location> {
        must_end_its_login(url)?;
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let quoting = Quoting::of(query);
        let mut parameters: Vec<(String, String)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (raw, value) = part.split_once('=').unwrap_or((part, ""));
            let the = quoting.name(raw);
            if raw.len() == part.len() {
                return Err(Error::invalid(format!("{the} has no value")));
            }
            let broken = || Error::invalid(format!("{the} has a broken % escape"));
            let (name, value) = (decode(raw).ok_or_else(broken)?, decode(value).ok_or_else(broken)?);
            if parameters.iter().any(|(seen, _)| *seen == name) {
                return Err(Error::invalid(format!("{the} is given twice")));
            }
            parameters.push((name, value));
        }
        Ok(Location { base: in_lower_case(base), parameters, quoting })
    }

    /// Returns the text before the `?`, with the scheme in lower case. It may hold a password.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the scheme, without `://`; empty if there is none.
    pub fn scheme(&self) -> &str {
        self.base.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Checks that the text before the `?` has no `#`: what follows it would not be read as a part of it.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if it has one.
    pub fn refuse_fragment(&self) -> Result<()> {
        match self.base.contains('#') {
            true => Err(Error::invalid("this URL has no #fragment; escape the character as %23")),
            false => Ok(()),
        }
    }

    /// Returns whether a parameter holds a secret. Then no error may quote another parameter, which may be a piece of
    /// the secret.
    pub fn has_a_secret(&self) -> bool {
        self.quoting == Quoting::Nothing
    }

    /// Marks these parameters as a part of `whole`: if `whole` holds a secret, no error quotes these parameters either.
    #[must_use]
    pub fn part_of(self, whole: &Location) -> Location {
        Location { quoting: whole.quoting, ..self }
    }

    /// Returns a parameter that was taken, for an error message. If the URL holds a secret, the value is left out,
    /// because it may be a piece of the secret.
    pub fn shown(&self, name: &str, value: &str) -> String {
        match self.quoting {
            Quoting::Names => format!("{name}={value}"),
            Quoting::Nothing => format!("the URL's parameter {name}"),
        }
    }

    /// Takes the parameter `name`. `None` if it is not there, or was taken already.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(n, _)| n == name)?;
        Some(self.parameters.remove(at).1)
    }

    /// Takes the parameter `name` if its value is `word`. Returns whether it is.
    pub fn take_word(&mut self, name: &str, word: &str) -> bool {
        let is_it = self.parameters.iter().any(|(n, value)| n == name && value == word);
        is_it && self.take(name).is_some()
    }

    /// Takes the parameter `name` as a duration: `500ms`, `30s`, `1h30m`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if its value is not a duration.
    pub fn take_duration(&mut self, name: &str) -> Result<Option<Duration>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        parse_duration(&value).map(Some).map_err(|e| match self.quoting {
            Quoting::Names => Error::invalid(format!("the URL's parameter {name:?}: {}", e.message())),
            Quoting::Nothing => Error::invalid(format!("the URL's parameter {name:?} is not a duration")),
        })
    }

    /// Takes `?prefix=`: the text before every name on the server.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is not a valid [`Prefix`].
    pub fn take_prefix(&mut self) -> Result<Prefix> {
        let prefix = self.take("prefix").map_or(Ok(Prefix::default()), Prefix::new);
        prefix.map_err(|e| match self.quoting {
            Quoting::Names => e,
            Quoting::Nothing => Error::invalid("the URL's parameter \"prefix\" can't be used"),
        })
    }

    /// Takes those of these parameters that are there, and returns them as the query of another URL:
    /// `a=1&b=2`, with `%` escapes. Empty if there is none of them.
    pub fn take_query(&mut self, names: &[&str]) -> String {
        let taken = names.iter().filter_map(|name| Some(format!("{name}={}", escape(&self.take(name)?))));
        taken.collect::<Vec<_>>().join("&")
    }

    /// Checks that all parameters have been taken. `known` lists the parameters that there are.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a parameter is left, because a misspelt one must not be ignored.
    pub fn finish(self, known: &str) -> Result<()> {
        match self.parameters.first() {
            None => Ok(()),
            Some((name, _)) => {
                let the = self.quoting.name(name);
                Err(Error::invalid(format!("{the} is not known here; the known ones are: {known}")))
            }
        }
    }
}

impl std::fmt::Debug for Location {
    /// Leaves out what may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://…", self.scheme())
    }
}

/// The permission to quote the names of a URL's parameters in an error.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    Names,
    /// A parameter holds a secret: an `&` in it makes what follows look like the next parameter.
    Nothing,
}

impl Quoting {
    fn of(query: &str) -> Quoting {
        let query = query.to_ascii_lowercase();
        match ["pass", "pwd", "secret", "token"].iter().any(|word| query.contains(word)) {
            true => Quoting::Nothing,
            false => Quoting::Names,
        }
    }

    fn name(self, name: &str) -> String {
        match self {
            Quoting::Names => format!("the URL's parameter {name:?}"),
            Quoting::Nothing => "a parameter of the URL (write %26 for a & in a value)".to_owned(),
        }
    }
}

/// Returns the text before the `?` with its scheme in lower case, if it begins with what can be one.
fn in_lower_case(base: &str) -> String {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    match base.split_once(':') {
        Some((scheme, rest)) if scheme.chars().all(is_of_scheme) => {
            format!("{}:{rest}", scheme.to_ascii_lowercase())
        }
        _ => base.to_owned(),
    }
}

/// Checks that there is no `@` after the host, which a `/`, `?` or `#` ends. Such an `@` shows that one of these
/// characters is in a password: what follows would be taken for a path or for parameters, and be shown as such.
fn must_end_its_login(url: &str) -> Result<()> {
    let Some((_, rest)) = url.split_once("://") else { return Ok(()) };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // The path of a socket or a file has no host, and no login before it.
    if host == 0 || !rest[host..].contains('@') {
        return Ok(());
    }
    Err(Error::invalid(
        "the URL has an @ behind its host; in a user, a password or a parameter write %40 for @, %2F for /, %3F for ?, \
         %23 for #",
    ))
}

/// Parses `500ms`, `30s`, `1.5h`, or several of them with falling units, `1h30m`.
///
/// ```
/// # use lock_core as onelock;
/// use std::time::Duration;
///
/// assert_eq!(onelock::parse_duration("1h30m").unwrap(), Duration::from_secs(5400));
/// assert!(onelock::parse_duration("90").is_err());
/// ```
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid) for any other text, such as a number without a unit.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let wrong = || Error::invalid(format!("{text:?} is not a duration; write 500ms, 30s, 5m, 1h30m or 1d"));
    let (mut rest, mut sum, mut last) = (text, Duration::ZERO, f64::INFINITY);
    loop {
        let (number, behind) = rest.split_at(rest.find(|c: char| !is_of_number(c)).ok_or_else(wrong)?);
        let (unit, behind) = behind.split_at(behind.find(is_of_number).unwrap_or(behind.len()));
        let seconds = seconds_of(unit).filter(|seconds| *seconds < last).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        sum = sum.checked_add(part).ok_or_else(wrong)?;
        if behind.is_empty() {
            return Ok(sum);
        }
        (rest, last) = (behind, seconds);
    }
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || c == '.'
}

fn seconds_of(unit: &str) -> Option<f64> {
    match unit {
        "us" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86400.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_or_refused() {
        let mut url = Location::parse("redis://h/1?prefix=a%3A&patience=1.5s&x=1").unwrap();
        assert_eq!((url.scheme(), url.base()), ("redis", "redis://h/1"));
        assert_eq!(url.take("prefix").as_deref(), Some("a:"));
        assert_eq!(url.take_duration("patience").unwrap(), Some(Duration::from_millis(1500)));
        assert!(!url.take_word("x", "2") && !url.take_word("y", "1"));
        assert!(url.clone().take_word("x", "1"));
        assert!(url.finish("prefix, patience").unwrap_err().message().contains("\"x\""));
        for bad in ["r://h?a", "r://h?a=1&a=2", "r://h?a=%g1", "r://h?a=%f"] {
            assert!(Location::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_scheme_has_no_case_and_everything_else_has() {
        for (given, read) in [
            ("REDIS://Host/A?x=1", "redis://Host/A"),
            ("SQLite:Locks.DB", "sqlite:Locks.DB"),
            ("MongoDB+SRV://U:P@h", "mongodb+srv://U:P@h"),
            ("User:Pass@Host", "user:Pass@Host"),
            ("A B://h", "A B://h"),
            ("", ""),
        ] {
            assert_eq!(Location::parse(given).unwrap().base(), read);
        }
    }

    #[test]
    fn parameters_are_passed_on_as_they_were_meant() {
        let mut url = Location::parse("x://h?ca=%2Ftmp%2Fa%20%26%25b%C3%A9.pem&x=1&key=/k").unwrap();
        let query = url.take_query(&["ca", "cert", "key"]);
        assert_eq!(query, "ca=/tmp/a%20%26%25b%C3%A9.pem&key=/k");
        let mut passed_on = Location::parse(&format!("y://h?{query}")).unwrap();
        assert_eq!(passed_on.take("ca").as_deref(), Some("/tmp/a &%bé.pem"));
        assert_eq!((url.take_query(&["ca"]), url.take("x").as_deref()), (String::new(), Some("1")));
    }

    #[test]
    fn a_fragment_is_refused_before_the_parameters() {
        assert!(Location::parse("x://h#y?a=1").unwrap().refuse_fragment().is_err());
        Location::parse("x://h?a=#y").unwrap().refuse_fragment().unwrap();
    }

    #[test]
    fn possible_password_pieces_are_not_quoted() {
        for url in [
            "redis://u:hun?ter2@h",
            "redis://u:hun/ter2@h",
            "redis://u:hun#ter2@h",
            "redis://u:hun?ter2=1@h",
            "unix:///s?user=u&pass=hun&ter2",
            "unix:///s?user=u&pass=hun&ter2=1&ter2=2",
            "unix:///s?user=u&pass=ter2%zz",
            "unix:///s?ter2%zz=1&pass=x",
        ] {
            let error = Location::parse(url).map(drop).expect_err(url);
            assert!(!format!("{error:?}").contains("ter2"), "{error:?}");
        }
        let left = Location::parse("etcd://h?tlsPassword=hun&ter2=1").unwrap().finish("prefix");
        assert!(!left.unwrap_err().message().contains("ter2"));
        let mut url = Location::parse("unix:///s?pass=hun&db=ter2&prefix=ter2:l").unwrap();
        let db = url.take("db").unwrap();
        let errors = [url.shown("db", &db), url.take_prefix().unwrap_err().to_string()];
        assert!(!errors.concat().contains("ter2"), "{errors:?}");
        assert_eq!(Location::parse("unix:///s?db=x").unwrap().shown("db", "x"), "db=x");
        for fine in ["redis://u:p%40@h/1", "redis://u:p@ss@h", "unix:///a@b", "sqlite:///a@b", "sqlite:a@b"] {
            assert!(Location::parse(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("0.5s", 500), ("2h", 7_200_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis));
        }
        for (text, seconds) in [("1h30m", 5_400), ("1m30s", 90), ("1d12h0.5m", 129_630)] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_secs(seconds));
        }
        for bad in
            ["", "30", "s", "-1s", "1w", "1 s", "1.2.3s", "99999999999999999999d", "30m1h", "1h1h", "1h30"]
        {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
