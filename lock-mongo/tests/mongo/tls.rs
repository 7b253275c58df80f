//! TLS against a real server.

use std::fs;
use std::path::Path;

use lock_conformance::servers::StandaloneMongoDb;
use lock_core::ErrorKind;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::server::{LONG, Server, claim, granted, open, run};

/// A certificate to be; everybody has a name of its own, or the server takes a certificate for its own issuer's.
fn parameters(who: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("fine names");
    parameters.distinguished_name.push(DnType::CommonName, who);
    parameters
}

/// Writes a root, and certificates of it with their keys for the server and for a client, into the folder.
fn write_certificates(folder: &Path) {
    let write = |file: &str, pem: &str| fs::write(folder.join(file), pem).expect("the folder takes files");
    let key = || KeyPair::generate().expect("a key");
    let mut root = parameters("a root", &[]);
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(root, key()).expect("a root");
    write("ca.pem", &root.pem());
    for who in ["server", "client"] {
        let key = key();
        let certificate = parameters(who, &["127.0.0.1", "localhost"]).signed_by(&key, &root).expect("a signature");
        write(&format!("{who}.pem"), &(certificate.pem() + &key.serialize_pem()));
    }
}

pub(crate) fn the_roots_and_the_clients_certificate_are_the_urls() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        write_certificates(folder.path());
        let file = |name: &str| folder.path().join(name).display().to_string();
        // The harness looks whether it is up without.
        let (server, ca) = (file("server.pem"), file("ca.pem"));
        let mut args = vec!["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", &server, "--tlsCAFile", &ca];
        for clients in ["may be anonymous", "have certificates"] {
            if clients == "may be anonymous" {
                args.push("--tlsAllowConnectionsWithoutCertificates");
            } else {
                args.pop();
                args[1] = "preferTLS";
            }
            let server = Server::start(&StandaloneMongoDb, &args);
            let url = |parameters: String| format!("{}/?tls=true{parameters}", server.0.url());
            let refused = lock_mongo::connect(&url(String::new())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused:?}");
            assert!(refused.message().contains("?ca="), "{refused}");

            if clients == "may be anonymous" {
                granted(&mut claim(&open(&url(format!("&ca={ca}"))).await, "a", LONG)).await;
            }
            let client = open(&url(format!("&ca={ca}&cert={}", file("client.pem")))).await;
            granted(&mut claim(&client, "b", LONG)).await;
            assert!(!format!("{client:?}").contains("PRIVATE"), "{client:?}");
        }
        let error = lock_mongo::Mongo::from_url(&format!("mongodb://h/?cert={ca}")).unwrap_err();
        assert!(error.message().contains("PRIVATE KEY"), "{error}");
    });
}
