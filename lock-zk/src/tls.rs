//! TLS: which roots are trusted, and which certificate the client shows.

use lock_core::driver::Location;
use lock_core::{Error, Result};
use zookeeper_client::Connector;

/// What `ca`, `cert` and `key` of a URL say.
#[derive(Clone)]
pub(crate) struct Tls {
    #[cfg(feature = "tls")]
    options: zookeeper_client::TlsOptions,
}

impl Tls {
    /// Takes the parameters, if the URL asks for TLS.
    pub(crate) fn take(url: &mut Location) -> Result<Option<Tls>> {
        let (ca, cert, key) = (url.take("ca"), url.take("cert"), url.take("key"));
        if url.scheme() != "zks" && ca.is_none() && cert.is_none() && key.is_none() {
            return Ok(None);
        }
        Tls::new(url, ca, cert, key).map(Some)
    }

    #[cfg(feature = "tls")]
    fn new(url: &Location, ca: Option<String>, cert: Option<String>, key: Option<String>) -> Result<Tls> {
        lock_core::driver::check_tls_provider()?;
        let wrong = |e: zookeeper_client::Error| Error::invalid(format!("ca, cert or key: {e}"));
        let ca = ca.ok_or_else(|| {
            Error::invalid("zks:// needs ?ca=: only the roots in that PEM file are trusted")
        })?;
        let options =
            zookeeper_client::TlsOptions::new().with_pem_ca(&read_pem(url, "ca", &ca)?).map_err(wrong)?;
        let options = match (cert, key) {
            (Some(cert), Some(key)) => {
                let (cert, key) = (read_pem(url, "cert", &cert)?, read_pem(url, "key", &key)?);
                options.with_pem_identity(&cert, &key).map_err(wrong)?
            }
            (None, None) => options,
            _ => {
                return Err(Error::invalid(
                    "cert and key go together: the client's certificate and its private key",
                ));
            }
        };
        Ok(Tls { options })
    }

    #[cfg(not(feature = "tls"))]
    fn new(_: &Location, _: Option<String>, _: Option<String>, _: Option<String>) -> Result<Tls> {
        Err(Error::unsupported("this build of lock-zk can't do TLS: its feature `tls` is off"))
    }

    #[cfg(feature = "tls")]
    pub(crate) fn configure(&self, connector: Connector) -> Connector {
        connector.with_tls(self.options.clone())
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn configure(&self, connector: Connector) -> Connector {
        connector
    }
}

#[cfg(feature = "tls")]
fn read_pem(url: &Location, parameter: &str, path: &str) -> Result<String> {
    let file = url.shown(parameter, path);
    std::fs::read_to_string(path)
        .map_err(|e| Error::invalid(format!("{file} can't be read: {e}")).with_source(e))
}
