//! TLS against a real server.

use lock_conformance::servers::{Owned, Persistence, Settings};
use lock_core::ErrorKind;
use lock_core::driver::Level;
use lock_sql::mysql;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, Issuer, KeyPair};

use crate::On;
use crate::server::{PATIENCE, Server, claim, granted, run};

type Root = CertifiedIssuer<'static, KeyPair>;

fn parameters(who: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("fine names");
    parameters.distinguished_name.push(DnType::CommonName, who);
    parameters
}

fn root() -> Root {
    let mut root = parameters("a root", &[]);
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(root, KeyPair::generate().expect("a key")).expect("a root")
}

/// A certificate and its key.
fn certificate(who: &str, names: &[&str], root: &Issuer<'_, KeyPair>) -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters(who, names).signed_by(&key, root).expect("a signature");
    (certificate.pem(), key.serialize_pem())
}

pub(crate) fn the_roots_verify_the_server_and_its_name(on: On) {
    run(async {
        let (ours, other) = (root(), root());
        let (certificate_pem, key) = certificate("server", &["127.0.0.1"], &ours);
        let files = [("ca.pem", ours.pem()), ("server.pem", certificate_pem), ("server.key", key)];
        let settings = Settings {
            persistence: Persistence::None,
            args: ["--ssl-ca=ca.pem", "--ssl-cert=server.pem", "--ssl-key=server.key"]
                .map(str::to_owned)
                .into(),
            files: files.map(|(name, pem)| (name.to_owned(), pem.into_bytes())).into(),
            ..Settings::default()
        };
        let server = Server::of(Owned::start(on, &settings).expect("another was started before"));
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, pem: &str| {
            std::fs::write(folder.path().join(name), pem).unwrap();
            folder.path().join(name).display().to_string()
        };
        let (ca, wrong) = (file("ca.pem", &ours.pem()), file("wrong.pem", &other.pem()));
        let encryption = async |parameters: String| {
            let client = mysql::connect(&server.url(&parameters)).await.unwrap();
            granted(&mut claim(&client, &format!("a{parameters}"), PATIENCE)).await;
            client.check().await.unwrap().into_iter().find(|f| f.subject == "encryption").unwrap().level
        };
        assert_eq!(encryption(format!("?ca={ca}")).await, Level::Good);
        assert_eq!(encryption(String::new()).await, Level::Good);
        assert_eq!(encryption("?ssl-mode=DISABLED".to_owned()).await, Level::Warning);

        for (host, parameters) in [
            ("127.0.0.1", format!("?ca={wrong}")),
            ("localhost", format!("?ca={ca}")),
            ("127.0.0.1", "?ssl-mode=VERIFY_IDENTITY".to_owned()),
        ] {
            let url = format!("mysql://lock@{host}:{}/{}{parameters}", server.port(), server.database());
            let error = mysql::connect(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{parameters}: {error:?}");
            assert!(error.message().contains("TLS"), "{error}");
        }
        let named = format!(
            "mysql://lock@localhost:{}/{}?ca={ca}&ssl-mode=VERIFY_CA",
            server.port(),
            server.database()
        );
        mysql::connect(&named).await.unwrap();

        // A certificate of the client's is asked for by the user's definition.
        server.execute("CREATE USER certified REQUIRE X509").await;
        server.execute(&format!("GRANT ALL ON {}.* TO certified", server.database())).await;
        let (pem, key) = certificate("client", &["client"], &ours);
        let parameters =
            format!("?ca={ca}&cert={}&key={}", file("client.pem", &pem), file("client.key", &key));
        mysql::connect(&server.url_of("certified", &parameters)).await.unwrap();
        let error = mysql::connect(&server.url_of("certified", &format!("?ca={ca}"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    });
}
