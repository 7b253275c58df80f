//! Certificates for servers that are tested with TLS, and for their clients.

use std::fs;
use std::io;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// A root that no program trusts unless it is told to.
#[derive(Debug)]
pub struct Root(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Root {
    /// Makes a new root. Also makes ring this program's provider of cryptography: with the features of the whole
    /// workspace, a test program may contain two, and rustls does not choose.
    pub fn new(who: &str) -> Root {
        // The error means that there is a provider already, as for the second root.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut root = parameters(who, &[]);
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Root(CertifiedIssuer::self_signed(root, key()).expect("a root may sign itself"))
    }

    /// Returns its own certificate, in PEM form.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certifies `who`: a server with these host names and addresses, or a client.
    pub fn certify(&self, who: &str, names: &[&str]) -> Certificate {
        let key = key();
        let certificate = parameters(who, names).signed_by(&key, &self.0).expect("a root may sign");
        Certificate { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A temporary folder with the certificates of one server and one client, in PEM form:
///
/// - `ca.pem`: a root; `another.pem`: another root, which has certified nothing;
/// - `ca-as-server.pem`, `ca-as-server.key`: a root that a server shows as its own certificate;
/// - `server.pem`, `client.pem`: what the first root has certified, for 127.0.0.1 and localhost;
/// - `server.key`, `client.key`: their keys;
/// - `server-and-key.pem`, `client-and-key.pem`: both in one file.
#[derive(Debug)]
pub struct CertificateFolder(TempDir);

impl CertificateFolder {
    /// Makes the folder. It goes with this value.
    ///
    /// # Errors
    ///
    /// If the temporary folder of this machine takes no files.
    pub fn make() -> io::Result<CertificateFolder> {
        let folder = CertificateFolder(tempfile::tempdir()?);
        let root = Root::new("a root");
        fs::write(folder.file("ca.pem"), root.pem())?;
        fs::write(folder.file("another.pem"), Root::new("another root").pem())?;
        let (mut ca, of_ca) = (parameters("a self-signed server", &["127.0.0.1", "localhost"]), key());
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = ca.self_signed(&of_ca).expect("a root may sign itself");
        fs::write(folder.file("ca-as-server.pem"), ca.pem())?;
        fs::write(folder.file("ca-as-server.key"), of_ca.serialize_pem())?;
        for who in ["server", "client"] {
            let Certificate { certificate, key } = root.certify(who, &["127.0.0.1", "localhost"]);
            fs::write(folder.file(&format!("{who}.pem")), &certificate)?;
            fs::write(folder.file(&format!("{who}.key")), &key)?;
            fs::write(folder.file(&format!("{who}-and-key.pem")), certificate + &key)?;
        }
        Ok(folder)
    }

    /// Returns the path of a file in it, whether it is there or not.
    pub fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// Each has a different name. Otherwise a server takes a certificate for that of its issuer.
fn parameters(who: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("the names are ASCII");
    parameters.distinguished_name.push(DnType::CommonName, who);
    parameters
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the machine has randomness")
}
