//! TLS in a URL: PEM files with the roots to trust and with the client's certificate.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Location;
use crate::error::{Error, Result};

/// The parameters of a URL about certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificates {
    /// The roots to trust, instead of the public ones.
    pub ca: Option<PemFile>,
    /// The certificate that the client shows to the server.
    pub client: Option<ClientCertificate>,
}

/// A client's certificate, and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCertificate {
    /// The certificate.
    pub cert: PemFile,
    /// The private key of the certificate.
    pub key: PemFile,
}

/// The names of the parameters. Where a client library has names of its own, they mean the same as ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateNames {
    /// For the roots.
    pub ca: &'static [&'static str],
    /// For the client's certificate.
    pub cert: &'static [&'static str],
    /// For its private key.
    pub key: &'static [&'static str],
}

/// A PEM file that was read. Its `Debug` shows only the path.
#[derive(Clone, PartialEq, Eq)]
pub struct PemFile {
    path: PathBuf,
    text: String,
}

/// The block that a PEM file has to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PemBlock {
    /// A certificate.
    Certificate,
    /// A private key, in any of its forms.
    PrivateKey,
}

impl CertificateNames {
    /// Takes the names for the roots, for the client's certificate, and for its private key.
    pub const fn new(
        ca: &'static [&'static str],
        cert: &'static [&'static str],
        key: &'static [&'static str],
    ) -> CertificateNames {
        CertificateNames { ca, cert, key }
    }
}

impl Default for CertificateNames {
    /// `ca`, `cert` and `key`.
    fn default() -> CertificateNames {
        CertificateNames::new(&["ca"], &["cert"], &["key"])
    }
}

impl Location {
    /// Takes the parameters about certificates, and reads the files that they name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid)
    ///
    /// - if one of a certificate and its key is given without the other,
    /// - if two names of one parameter are given,
    /// - as [`PemFile::read`] says.
    pub fn take_certificates(&mut self, names: &CertificateNames) -> Result<Certificates> {
        let ca = self.take_pem(names.ca, PemBlock::Certificate)?;
        let cert = self.take_pem(names.cert, PemBlock::Certificate)?;
        let key = self.take_pem(names.key, PemBlock::PrivateKey)?;
        let client = match (cert, key) {
            (Some(cert), Some(key)) => Some(ClientCertificate { cert, key }),
            (None, None) => None,
            _ => {
                return Err(Error::invalid(
                    "cert and key go together: the client's certificate and its private key",
                ));
            }
        };
        Ok(Certificates { ca, client })
    }

    /// Takes the file that one of these parameters names.
    fn take_pem(&mut self, names: &[&str], block: PemBlock) -> Result<Option<PemFile>> {
        let mut found = None;
        for name in names {
            let Some(path) = self.take(name) else { continue };
            if let Some((other, _)) = found.replace((name, PemFile::read(self, name, &path, &[block])?)) {
                return Err(Error::invalid(format!("{other} and {name} mean the same: write only one")));
            }
        }
        Ok(found.map(|(_, file)| file))
    }
}

impl PemFile {
    /// Reads the file that `parameter` of `url` names, and checks that it contains these blocks.
    ///
    /// A client library would take a file without certificates for an empty list of roots, and report that at the first
    /// connection, without the file's name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the file can't be read, or if a block is missing.
    pub fn read(url: &Location, parameter: &str, path: &str, blocks: &[PemBlock]) -> Result<PemFile> {
        let file = url.shown(parameter, path);
        let bytes = std::fs::read(path)
            .map_err(|e| Error::invalid(format!("{file} can't be read: {e}")).with_source(e))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match blocks.iter().find(|block| !text.contains(&format!("{block}-----"))) {
            Some(missing) => Err(Error::invalid(format!("{file} holds no {missing} in PEM form"))),
            None => Ok(PemFile { path: path.into(), text }),
        }
    }

    /// Returns the path, as the URL names it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what was read.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Returns what to do about a certificate that rustls has refused in these words, to be put behind them; empty where they
/// say enough.
pub fn certificate_advice(said: &str) -> &'static str {
    if said.contains("CaUsedAsEndEntity") {
        return " (the server shows the certificate of a CA, as many self-signed ones are; make one for the server that is \
                none, with CA:FALSE, let the CA sign it, and name the CA's in the URL's ca)";
    }
    if said.contains("UnknownIssuer") {
        return " (none of the roots has signed it; name the PEM file of the CA that has in the URL's ca)";
    }
    ""
}

impl fmt::Debug for PemFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PemFile").field(&self.path).finish()
    }
}

impl fmt::Display for PemBlock {
    /// The last words of the block's first line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PemBlock::Certificate => "CERTIFICATE",
            PemBlock::PrivateKey => "PRIVATE KEY",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n";

    /// A folder with `cert.pem` and `key.pem`, which is removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("onelock-{}-{test}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cert.pem"), CERTIFICATE).unwrap();
            std::fs::write(folder.join("key.pem"), KEY).unwrap();
            Folder(folder)
        }

        /// Parses a URL in which `CERT` and `KEY` stand for the files.
        fn location(&self, query: &str) -> Location {
            let path = |name| self.0.join(name).display().to_string();
            let query = query.replace("CERT", &path("cert.pem")).replace("KEY", &path("key.pem"));
            Location::parse(&format!("x://h?{query}")).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    const NAMES: CertificateNames =
        CertificateNames::new(&["ca", "sslrootcert"], &["cert"], &["key", "sslkey"]);

    #[test]
    fn the_files_are_read_by_whatever_name() {
        let folder = Folder::new("names");
        for (query, names) in [
            ("ca=CERT&cert=CERT&key=KEY", CertificateNames::default()),
            ("sslrootcert=CERT&cert=CERT&sslkey=KEY", NAMES),
        ] {
            let mut location = folder.location(query);
            let Certificates { ca, client } = location.take_certificates(&names).unwrap();
            let (ca, client) = (ca.unwrap(), client.unwrap());
            assert_eq!((ca.text(), ca.path()), (CERTIFICATE, folder.0.join("cert.pem").as_path()));
            assert_eq!((client.cert.text(), client.key.text()), (CERTIFICATE, KEY));
            assert!(!format!("{client:?}").contains("BEGIN"));
            location.finish("").unwrap();
        }
        let mut none = folder.location("");
        assert_eq!(none.take_certificates(&NAMES).unwrap(), Certificates::default());
    }

    #[test]
    fn a_ca_in_place_of_a_server_is_explained() {
        assert!(certificate_advice("invalid peer certificate: CaUsedAsEndEntity").contains("CA:FALSE"));
        assert!(certificate_advice("invalid peer certificate: UnknownIssuer").contains("has signed it"));
        assert_eq!(certificate_advice("invalid peer certificate: Expired"), "");
    }

    #[test]
    fn what_can_not_be_meant_is_refused() {
        let folder = Folder::new("refused");
        for (query, says) in [
            ("cert=CERT", "go together"),
            ("key=KEY", "go together"),
            ("ca=CERT&sslrootcert=CERT", "mean the same"),
            ("ca=KEY", "holds no CERTIFICATE"),
            ("cert=CERT&key=CERT", "holds no PRIVATE KEY"),
            ("ca=/no/such/file", "ca=/no/such/file can't be read"),
        ] {
            let error = folder.location(query).take_certificates(&NAMES).expect_err(query);
            assert!(error.kind() == ErrorKind::Invalid && error.message().contains(says), "{query}: {error}");
        }
        let error = folder.location("pass=x&ca=/hunter2").take_certificates(&NAMES).unwrap_err();
        assert!(!error.message().contains("hunter2"), "{error}");
    }
}
