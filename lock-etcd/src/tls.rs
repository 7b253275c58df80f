//! TLS: the roots to trust, and the client's certificate, from PEM files.

use etcd_client::ConnectOptions;
use lock_core::Result;
use lock_core::toolkit::Location;

/// Takes `?ca=`, `?cert=` and `?key=` of an `etcds://` URL.
#[cfg(feature = "tls")]
pub(crate) fn take_certificates(url: &mut Location, connecting: ConnectOptions) -> Result<ConnectOptions> {
    use etcd_client::{Certificate, Identity, TlsOptions};
    use lock_core::toolkit::{CertificateNames, Certificates, ClientCertificate};

    let Certificates { ca, client, .. } = url.take_certificates(&CertificateNames::default())?;
    let tls = match ca {
        Some(ca) => TlsOptions::new().ca_certificate(Certificate::from_pem(ca.text())),
        None => TlsOptions::new().with_webpki_roots(),
    };
    let tls = match client {
        Some(ClientCertificate { cert, key, .. }) => {
            tls.identity(Identity::from_pem(cert.text(), key.text()))
        }
        None => tls,
    };
    Ok(connecting.with_tls(tls))
}

#[cfg(not(feature = "tls"))]
pub(crate) fn take_certificates(_: &mut Location, _: ConnectOptions) -> Result<ConnectOptions> {
    Err(lock_core::Error::unsupported("this build of lock-etcd can't do TLS: its feature `tls` is off"))
}
