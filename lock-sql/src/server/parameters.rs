//! What a URL says beside the driver's own options.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::{Error, Location, Options, Prefix, Result};

use super::table_name::TableName;

/// How many connections a client opens at most, unless the URL says otherwise.
const CONNECTIONS: usize = 8;
/// More would only queue at the server.
const MOST_CONNECTIONS: usize = 1000;

/// What we are told of a server beside where it is and who we are there.
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
    /// Whom we trust.
    pub(crate) ca: Option<PathBuf>,
    /// Who we are, and the key to it.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
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
    /// What is known in every dialect, for messages.
    pub(crate) const KNOWN: &str = "prefix, table, connections, patience, ca, cert, key";

    /// Takes ours out of a URL.
    pub(crate) fn take(url: &mut Location) -> Result<Parameters> {
        let default = Parameters::default();
        Ok(Parameters {
            prefix: url.take_prefix()?,
            table: url.take("table").map_or(Ok(default.table), |table| table.parse())?,
            connections: url
                .take("connections")
                .map_or(Ok(default.connections), |n| parse_connections(&n))?,
            patience: url.take_duration("patience")?,
        })
    }

    /// A patience in the URL comes before one in the options.
    pub(crate) fn options(&self, options: Options) -> Options {
        match self.patience {
            Some(patience) => options.patience(patience),
            None => options,
        }
    }
}

impl Certificates {
    /// Takes `?ca=`, `?cert=` and `?key=` out of a URL; `None` if it has none of them.
    pub(crate) fn take(url: &mut Location) -> Result<Option<Certificates>> {
        let ca = url.take("ca").map(|path| pem("ca", path, "CERTIFICATE")).transpose()?;
        let client = match (url.take("cert"), url.take("key")) {
            (Some(cert), Some(key)) => {
                Some((pem("cert", cert, "CERTIFICATE")?, pem("key", key, "PRIVATE KEY")?))
            }
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

fn parse_connections(text: &str) -> Result<usize> {
    text.parse().ok().filter(|n| (2..=MOST_CONNECTIONS).contains(n)).ok_or_else(|| {
        Error::invalid(format!("connections={text}: from 2 (one is kept for renewals) to {MOST_CONNECTIONS}"))
    })
}

/// A file that holds `what`: the driver would only say at the first connection that it doesn't.
fn pem(parameter: &str, path: String, what: &str) -> Result<PathBuf> {
    let text = std::fs::read(&path)
        .map_err(|e| Error::invalid(format!("{parameter}={path} can't be read: {e}")).with_source(e))?;
    if !String::from_utf8_lossy(&text).contains(&format!("{what}-----")) {
        return Err(Error::invalid(format!("{parameter}={path} holds no {what} in PEM form")));
    }
    Ok(path.into())
}
