//! The parameters of a URL beside the driver's own options.

use std::path::PathBuf;

use lock_core::toolkit::{CertificateNames, CommonParameters, Location};
use lock_core::{Error, Result};

use super::table_name::TableName;

/// The number of connections that a client opens at most, unless the URL says otherwise.
const CONNECTIONS: usize = 8;
/// The largest number that a URL may name. More connections would only queue at the server.
const MOST_CONNECTIONS: usize = 1000;

/// The settings of a server beside its address and the user.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub(crate) common: CommonParameters,
    pub(crate) table: TableName,
    pub(crate) connections: usize,
}

/// Files with certificates, in PEM form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates {
    /// The roots that the client trusts.
    pub(crate) ca: Option<PathBuf>,
    /// The client's certificate, and its private key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        let common = CommonParameters::default();
        Parameters { common, table: TableName::default(), connections: CONNECTIONS }
    }
}

impl Parameters {
    /// The parameters that every dialect knows, for messages.
    pub(crate) const KNOWN: &str = "prefix, table, connections, patience, connect_wait, lazy, ca, cert, key";

    /// Takes these parameters out of a URL.
    pub(crate) fn take(url: &mut Location) -> Result<Parameters> {
        let default = Parameters::default();
        Ok(Parameters {
            common: url.take_common()?,
            table: url.take("table").map_or(Ok(default.table), |table| parse_table(url, &table))?,
            connections: url
                .take("connections")
                .map_or(Ok(default.connections), |n| parse_connections(url, &n))?,
        })
    }
}

impl Certificates {
    /// Takes the file names out of a URL; `None` if it has none of them. Under any of the names, roots are used to verify
    /// the server.
    pub(crate) fn take(url: &mut Location, names: &CertificateNames) -> Result<Option<Certificates>> {
        let found = url.take_certificates(names)?;
        if found.ca.is_none() && found.client.is_none() {
            return Ok(None);
        }
        if cfg!(not(feature = "tls")) {
            return Err(Error::unsupported("this build of lock-sql can't do TLS: its feature `tls` is off"));
        }
        Ok(Some(Certificates {
            ca: found.ca.map(|ca| ca.path().into()),
            client: found.client.map(|client| (client.cert.path().into(), client.key.path().into())),
        }))
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
