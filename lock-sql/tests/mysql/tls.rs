//! TLS against a real server.

use lock_core::ErrorKind;
use lock_core::driver::Level;
use lock_sql::mysql;
use lock_test_servers::{Owned, Persistence, Root, Settings};

use crate::On;
use crate::server::{PATIENCE, Server, claim, granted, run};

pub(crate) fn the_roots_verify_the_server_and_its_name(on: On) {
    run(async {
        let (ours, other) = (Root::new("a root"), Root::new("another root"));
        let of_server = ours.certify("server", &["127.0.0.1"]);
        let files =
            [("ca.pem", ours.pem()), ("server.pem", of_server.certificate), ("server.key", of_server.key)];
        let settings = Settings {
            persistence: Persistence::None,
            args: ["--ssl-ca=ca.pem", "--ssl-cert=server.pem", "--ssl-key=server.key"]
                .map(str::to_owned)
                .into(),
            files: files.map(|(name, pem)| (name.to_owned(), pem.into_bytes())).into(),
            ..Settings::default()
        };
        let server = Server::of(Owned::start(on, &settings).expect("the server can be started"));
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

        // The user's definition requires a certificate of the client.
        server.execute("CREATE USER certified REQUIRE X509").await;
        server.execute(&format!("GRANT ALL ON {}.* TO certified", server.database())).await;
        let client = ours.certify("client", &[]);
        let (cert, key) = (file("client.pem", &client.certificate), file("client.key", &client.key));
        let parameters = format!("?ca={ca}&cert={cert}&key={key}");
        mysql::connect(&server.url_of("certified", &parameters)).await.unwrap();
        let error = mysql::connect(&server.url_of("certified", &format!("?ca={ca}"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    });
}
