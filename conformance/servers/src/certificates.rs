//! Certificates for servers that are tested with TLS, and for their clients.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

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
