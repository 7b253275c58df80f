//! TLS: the roots to trust, and the client's certificate, from PEM files.

use etcd_client::ConnectOptions;
use lock_core::Result;
use lock_core::driver::Location;

/// Takes `?ca=`, `?cert=` and `?key=` of an `etcds://` URL.
#[cfg(feature = "tls")]
pub(crate) fn take_certificates(url: &mut Location, connecting: ConnectOptions) -> Result<ConnectOptions> {
    use etcd_client::{Certificate, Identity, TlsOptions};

    let mut tls = match url.take("ca") {
        Some(path) => TlsOptions::new().ca_certificate(Certificate::from_pem(read_pem(
            url,
            "ca",
            &path,
            "CERTIFICATE",
        )?)),
        None => TlsOptions::new().with_webpki_roots(),
    };
    match (url.take("cert"), url.take("key")) {
        (Some(cert), Some(key)) => {
            let cert = read_pem(url, "cert", &cert, "CERTIFICATE")?;
            tls = tls.identity(Identity::from_pem(cert, read_pem(url, "key", &key, "PRIVATE KEY")?));
        }
        (None, None) => {}
        _ => {
            return Err(lock_core::Error::invalid(
                "cert and key go together: the client's certificate and its private key",
            ));
        }
    }
    Ok(connecting.with_tls(tls))
}

#[cfg(not(feature = "tls"))]
pub(crate) fn take_certificates(_: &mut Location, _: ConnectOptions) -> Result<ConnectOptions> {
    Err(lock_core::Error::unsupported("this build of lock-etcd can't do TLS: its feature `tls` is off"))
}

/// Reads a PEM file that must contain `what`. Without this check, a file without certificates would mean that no server
/// is trusted.
#[cfg(feature = "tls")]
fn read_pem(url: &Location, parameter: &str, path: &str, what: &str) -> Result<Vec<u8>> {
    use lock_core::Error;

    let file = url.shown(parameter, path);
    let pem = std::fs::read(path)
        .map_err(|e| Error::invalid(format!("{file} can't be read: {e}")).with_source(e))?;
    if !String::from_utf8_lossy(&pem).contains(&format!("{what}-----")) {
        return Err(Error::invalid(format!("{file} holds no {what} in PEM form")));
    }
    Ok(pem)
}
