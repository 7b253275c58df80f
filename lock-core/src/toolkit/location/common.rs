//! The parameters that the URLs of all backends have.

use std::time::Duration;

use super::Location;
use crate::error::{Error, Result};
use crate::name::Prefix;
use crate::options::Options;

/// `prefix`, `patience`, `connect_wait` and `lazy`, as a URL gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommonParameters {
    /// Stands before every name on the server; empty if the URL has no `prefix`.
    pub prefix: Prefix,
    /// The time that one request may take. It takes precedence over the patience of the [`Options`].
    pub patience: Option<Duration>,
    /// For how long opening tries again. It takes precedence over that of the [`Options`].
    pub connect_wait: Option<Duration>,
    /// The moment of the first request: when the client is opened, or when it is first used.
    pub opening: Opening,
}

/// The behaviour of opening a client: it waits for the server or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// Opening waits, for one patience or the `connect_wait`, and fails if the server can't be used.
    #[default]
    Waits,
    /// Opening asks the server nothing. The first call does what opening would have done, and returns its
    /// error.
    Lazy,
}

impl CommonParameters {
    /// Returns these options with the patience and the `connect_wait` of the URL, where it has them.
    pub fn apply_to(&self, options: Options) -> Options {
        let options = match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        };
        match self.connect_wait {
            Some(wait) => options.connect_wait(wait),
            None => options,
        }
    }
}

impl Location {
    /// Takes `prefix`, `patience`, `connect_wait` and `lazy`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if one of them has a value that can't be meant.
    pub fn take_common(&mut self) -> Result<CommonParameters> {
        Ok(CommonParameters {
            prefix: self.take_prefix()?,
            patience: self.take_duration("patience")?,
            connect_wait: self.take_duration("connect_wait")?,
            opening: self.take_opening()?,
        })
    }

    fn take_opening(&mut self) -> Result<Opening> {
        Ok(if self.take_flag("lazy")? { Opening::Lazy } else { Opening::Waits })
    }

    /// Takes a parameter that is `true` (or `1`) or `false` (or `0`); it is false if it is not there.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is anything else.
    pub fn take_flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(Error::invalid(format!("{}: write true or false", self.shown(name, other)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn common(query: &str) -> Result<CommonParameters> {
        Location::parse(&format!("x://h?{query}")).unwrap().take_common()
    }

    #[test]
    fn a_url_may_say_something_else_than_the_defaults() {
        assert_eq!(common("").unwrap(), CommonParameters::default());
        for (query, opening) in
            [("lazy=false", Opening::Waits), ("lazy=0", Opening::Waits), ("lazy=1", Opening::Lazy)]
        {
            assert_eq!(common(query).unwrap().opening, opening, "{query}");
        }
        let given = common("prefix=a%3A&patience=250ms&connect_wait=30s&lazy=true").unwrap();
        let patience = Duration::from_millis(250);
        let expected = CommonParameters {
            prefix: Prefix::new("a:").unwrap(),
            patience: Some(patience),
            connect_wait: Some(Duration::from_secs(30)),
            opening: Opening::Lazy,
        };
        assert_eq!(given, expected);
    }

    #[test]
    fn a_value_that_can_not_be_meant_is_refused() {
        for bad in ["lazy=yes", "lazy=", "patience=5", "connect_wait=5", "prefix=%3Alock%7E"] {
            assert_eq!(common(bad).expect_err(bad).kind(), ErrorKind::Invalid, "{bad}");
        }
        let secret = common("pass=x&lazy=hunter2").unwrap_err();
        assert!(!secret.message().contains("hunter2"), "{secret}");
    }
}
