//! TLS: which roots are trusted, and which certificate the client shows.

use lock_core::toolkit::Location;
use lock_core::{Error, Result};
use zookeeper_client::Connector;

/// The URL's parameters `ca`, `cert` and `key`.
#[derive(Clone)]
pub(crate) struct Tls {
    #[cfg(feature = "tls")]
    options: zookeeper_client::TlsOptions,
}

impl Tls {
    /// Takes the parameters, if the URL asks for TLS: by its scheme or by one of them.
    #[cfg(feature = "tls")]
    pub(crate) fn take(url: &mut Location) -> Result<Option<Tls>> {
        use lock_core::toolkit::{CertificateNames, Certificates, ClientCertificate, check_tls_provider};
        use zookeeper_client::{Error as ZkError, TlsOptions};

        let Certificates { ca, client, .. } = url.take_certificates(&CertificateNames::default())?;
        if url.scheme() != "zks" && ca.is_none() && client.is_none() {
            return Ok(None);
        }
        check_tls_provider()?;
        let wrong = |e: ZkError| Error::invalid(format!("ca, cert or key: {e}"));
        let ca = ca.ok_or_else(|| {
            Error::invalid("zks:// needs ?ca=: only the roots in that PEM file are trusted")
        })?;
        let options = TlsOptions::new().with_pem_ca(ca.text()).map_err(wrong)?;
        let options = match client {
            Some(ClientCertificate { cert, key, .. }) => {
                options.with_pem_identity(cert.text(), key.text()).map_err(wrong)?
            }
            None => options,
        };
        Ok(Some(Tls { options }))
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn take(url: &mut Location) -> Result<Option<Tls>> {
        let given = ["ca", "cert", "key"].map(|name| url.take(name));
        match url.scheme() == "zks" || given.iter().any(Option::is_some) {
            true => Err(Error::unsupported("this build of lock-zk can't do TLS: its feature `tls` is off")),
            false => Ok(None),
        }
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
