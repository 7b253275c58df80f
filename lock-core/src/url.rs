//! URLs: what every backend reads of them in the same way. What nobody has read by the end is an error.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::name::Prefix;

/// A URL taken apart: what stands before the `?`, and the parameters behind it, to be taken one by one.
#[derive(Clone)]
pub struct Location {
    base: String,
    parameters: Vec<(String, String)>,
}

impl Location {
    /// Takes a URL apart. `Invalid` for a parameter without a value, one given twice, or a broken `%` escape.
    pub fn parse(url: &str) -> Result<Location> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parameters: Vec<(String, String)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(Error::invalid(format!("the URL's parameter {part:?} has no value")));
            };
            let (name, value) = (unescape(name)?, unescape(value)?);
            if parameters.iter().any(|(seen, _)| *seen == name) {
                return Err(Error::invalid(format!("the URL's parameter {name:?} is given twice")));
            }
            parameters.push((name, value));
        }
        Ok(Location { base: base.to_owned(), parameters })
    }

    /// What stands before the `?`. It may hold a password.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The scheme, without `://`; empty if there is none.
    pub fn scheme(&self) -> &str {
        self.base.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Takes the parameter `name`.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.parameters.iter().position(|(n, _)| n == name)?;
        Some(self.parameters.remove(at).1)
    }

    /// Takes the parameter `name` as a duration: `500ms`, `30s`, `5m`, `2h`.
    pub fn take_duration(&mut self, name: &str) -> Result<Option<Duration>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        parse_duration(&value)
            .map(Some)
            .map_err(|e| Error::invalid(format!("the URL's parameter {name:?}: {}", e.message())))
    }

    /// Takes `?prefix=`: what stands before every name on the server.
    pub fn take_prefix(&mut self) -> Result<Prefix> {
        self.take("prefix").map_or(Ok(Prefix::default()), Prefix::new)
    }

    /// Says that everything has been taken: what is left is `Invalid`, because a misspelt parameter must not be ignored.
    pub fn finish(self, known: &str) -> Result<()> {
        match self.parameters.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "the URL's parameter {name:?} is not known here; there are: {known}"
            ))),
        }
    }
}

impl std::fmt::Debug for Location {
    /// Without what may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://…", self.scheme())
    }
}

/// Parses `500ms`, `30s`, `5m`, `2h`, `1d`; a fraction is fine (`1.5s`), a number without a unit is not.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let wrong = || Error::invalid(format!("{text:?} is no duration; write 500ms, 30s, 5m, 2h or 1d"));
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

fn unescape(text: &str) -> Result<String> {
    let wrong = || Error::invalid(format!("a broken % escape in the URL's parameter {text:?}"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|d| (d as char).to_digit(16)).ok_or_else(wrong);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
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
        assert!(url.finish("prefix, patience").unwrap_err().message().contains("\"x\""));
        for bad in ["r://h?a", "r://h?a=1&a=2", "r://h?a=%g1", "r://h?a=%f"] {
            assert!(Location::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("0.5s", 500), ("2h", 7_200_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis));
        }
        for bad in ["", "30", "s", "-1s", "1w", "1 s", "1.2.3s", "99999999999999999999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
