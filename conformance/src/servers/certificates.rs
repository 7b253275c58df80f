//! Certificates for servers that are tested with TLS, and for their clients.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// A root that nobody trusts who isn't told to.
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
    /// A new one. Makes ring this program's provider of cryptography: with the features of a whole workspace, tests may
    /// contain two, and rustls doesn't choose.
    pub fn new(who: &str) -> Root {
        // An error says that there is one already, as for the second root.
        rustls::crypto::ring::default_provider().install_default().ok();
        let mut root = parameters(who, &[]);
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Root(CertifiedIssuer::self_signed(root, key()).expect("a root may sign itself"))
    }

    /// Its own certificate, in PEM form.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Certifies `who`, a server with these host names and addresses or a client.
    pub fn certify(&self, who: &str, names: &[&str]) -> Certificate {
        let key = key();
        let certificate = parameters(who, names).signed_by(&key, &self.0).expect("a root may sign");
        Certificate { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Everybody has a name of their own, or a server takes a certificate for its own issuer's.
fn parameters(who: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("the names are ASCII");
    parameters.distinguished_name.push(DnType::CommonName, who);
    parameters
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the machine has randomness")
}
