//! The parameters of a URL beside the driver's own options.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::driver::{Location, Prefix};
use lock_core::{Error, Options, Result};

use super::table_name::TableName;

/// How many connections a client opens at most, unless the URL says otherwise.
const CONNECTIONS: usize = 8;
/// The largest number that a URL may name. More connections would only queue at the server.
const MOST_CONNECTIONS: usize = 1000;

/// The settings of a server beside its address and the user.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) prefix: Prefix,
    pub(crate) table: TableName,
    pub(crate) connections: usize,
    patience: Option<Duration>,
}

/// Files with certificates, in PEM form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    /// The roots that the client trusts.
    pub(crate) ca: Option<PathBuf>,
    /// The client's certificate, and its private key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// The parameter names that a URL may use for these files, including the driver's own names. Under any of these names,
/// roots are used to verify the server.
pub(crate) struct ParameterNames {
    pub(crate) ca: &'static [&'static str],
    pub(crate) cert: &'static [&'static str],
    pub(crate) key: &'static [&'static str],
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            prefix: Prefix::default(),
            table: TableName::default(),
            connections: CONNECTIONS,
            patience: None,
        }
    }
}

impl Parameters {
    /// The parameters that every dialect knows, for messages.
    pub(crate) const KNOWN: &str = "prefix, table, connections, patience, ca, cert, key";

    /// Takes these parameters out of a URL.
    pub(crate) fn take(url: &mut Location) -> Result<Parameters> {
        let default = Parameters::default();
        Ok(Parameters {
            prefix: url.take_prefix()?,
            table: url.take("table").map_or(Ok(default.table), |table| parse_table(url, &table))?,
            connections: url
                .take("connections")
                .map_or(Ok(default.connections), |n| parse_connections(url, &n))?,
            patience: url.take_duration("patience")?,
        })
    }

    /// Returns the options with the URL's patience, if it names one. The URL takes precedence over the options.
    pub(crate) fn options(&self, options: Options) -> Options {
        match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        }
    }
}

impl Certificates {
    /// Takes the file names out of a URL; `None` if it has none of them.
    pub(crate) fn take(url: &mut Location, known_as: &ParameterNames) -> Result<Option<Certificates>> {
        let ca = take_file(url, known_as.ca, "CERTIFICATE")?;
        let cert = take_file(url, known_as.cert, "CERTIFICATE")?;
        let key = take_file(url, known_as.key, "PRIVATE KEY")?;
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "cert and key go together: the client's certificate and its private key",
                ));
            }
        };
        if ca.is_none() && client.is_none() {
            return Ok(None);
        }
        if cfg!(not(feature = "tls")) {
            return Err(Error::unsupported("this build of lock-sql can't do TLS: its feature `tls` is off"));
        }
        Ok(Some(Certificates { ca, client }))
    }
}

fn parse_table(url: &Location, text: &str) -> Result<TableName> {
    text.parse().map_err(|e| match url.has_a_secret() {
        true => Error::invalid("the URL's parameter table must be a name of letters, digits and _"),
        false => e,
    })
}

fn parse_connections(url: &Location, text: &str) -> Result<usize> {
    text.parse().ok().filter(|n| (2..=MOST_CONNECTIONS).contains(n)).ok_or_else(|| {
        let connections = url.shown("connections", text);
        Error::invalid(format!("{connections}: must be 2 (one is kept for renewals) to {MOST_CONNECTIONS}"))
    })
}

/// Takes the file that one of these parameters names. `Invalid` if more than one of them is given.
fn take_file(url: &mut Location, names: &[&str], what: &str) -> Result<Option<PathBuf>> {
    let mut found = None;
    for name in names {
        let Some(path) = url.take(name) else { continue };
        if let Some((other, _)) = found.replace((name, pem(url, name, path, what)?)) {
            return Err(Error::invalid(format!("{other} and {name} mean the same: write only one")));
        }
    }
    Ok(found.map(|(_, path)| path))
}

/// Checks that a file contains `what`. Without this check, the driver would report a wrong file only at the first
/// connection.
fn pem(url: &Location, parameter: &str, path: String, what: &str) -> Result<PathBuf> {
    let file = url.shown(parameter, &path);
    let text = std::fs::read(&path)
        .map_err(|e| Error::invalid(format!("{file} can't be read: {e}")).with_source(e))?;
    if !String::from_utf8_lossy(&text).contains(&format!("{what}-----")) {
        return Err(Error::invalid(format!("{file} holds no {what} in PEM form")));
    }
    Ok(path.into())
}
