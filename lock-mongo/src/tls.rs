//! TLS: the roots to trust, and the client's certificate, in PEM files.

use lock_core::toolkit::{Location, PemBlock, PemFile};
use lock_core::{Error, Result};
use mongodb::options::{ConnectionString, Tls, TlsOptions};

/// Takes `ca`, `cert` and `key`, and adds the files to what the `mongodb` crate connects with.
pub(crate) fn take_certificates(ours: &mut Location, url: &mut ConnectionString) -> Result<()> {
    let ca = ours.take("ca");
    let ca = ca.map(|path| PemFile::read(ours, "ca", &path, &[PemBlock::Certificate])).transpose()?;
    let client = match (ours.take("cert"), ours.take("key")) {
        (Some(cert), None) => Some(cert),
        (Some(cert), Some(key)) if cert == key => Some(cert),
        (Some(_), Some(_)) => {
            return Err(Error::invalid(
                "cert and key name two files, but MongoDB's driver reads both from one file; write certificate and key \
                 into one PEM file, and name that file as cert",
            ));
        }
        (None, None) => None,
        (None, Some(_)) => {
            return Err(Error::invalid(
                "key is given without cert; name as cert a PEM file with the client's certificate and its key",
            ));
        }
    };
    let both = [PemBlock::Certificate, PemBlock::PrivateKey];
    let client = client.map(|path| PemFile::read(ours, "cert", &path, &both)).transpose()?;
    if ca.is_none() && client.is_none() {
        return Ok(());
    }
    let mut tls = match url.tls.take() {
        None => TlsOptions::default(),
        Some(Tls::Enabled(tls)) => tls,
        Some(Tls::Disabled) => return Err(Error::invalid("ca, cert and key can't be used with tls=false")),
    };
    tls.ca_file_path = ca.map(|ca| ca.path().into()).or(tls.ca_file_path);
    tls.cert_key_file_path = client.map(|client| client.path().into()).or(tls.cert_key_file_path);
    url.tls = Some(Tls::Enabled(tls));
    Ok(())
}
