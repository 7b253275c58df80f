//! TLS against a real server.

use lock_core::{ErrorKind, Options};
use lock_test_servers::CertificateFolder;

use crate::server::{LONG, PATIENCE, Server, claim, granted, open, run};

pub(crate) fn the_roots_and_the_clients_certificate_are_the_urls() -> Result<(), String> {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let file = |name: &str| folder.file(name);
        let (cert, key, ca) = (file("server.pem"), file("server.key"), file("ca.pem"));
        let mut args = vec!["--cert-file", &cert, "--key-file", &key];
        for clients in ["may be anonymous", "have certificates"] {
            if clients == "have certificates" {
                args.extend(["--client-cert-auth", "--trusted-ca-file", &ca]);
            }
            let server = Server::start_with(&args);
            let url =
                |parameters: String| format!("etcds://{}?election=200ms{parameters}", server.0.address());
            let refused = lock_etcd::connect(&url(String::new())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused:?}");
            assert!(refused.message().contains("?ca="), "{refused}");

            if clients == "may be anonymous" {
                granted(&mut claim(&open(&url(format!("&ca={ca}"))).await, "a", LONG)).await;
                let plain = url(String::new()).replace("etcds", "etcd");
                let options = Options::default().patience(PATIENCE / 5);
                let error = lock_etcd::connect_with(&plain, options).await.unwrap_err();
                assert!(error.is_transient(), "{error:?}");
            } else {
                let error = lock_etcd::connect(&url(format!("&ca={ca}"))).await.unwrap_err();
                assert!(
                    matches!(error.kind(), ErrorKind::Rejected | ErrorKind::Unavailable { .. }),
                    "{error:?}"
                );
            }
            let certified = format!("&ca={ca}&cert={}&key={}", file("client.pem"), file("client.key"));
            let client = open(&url(certified)).await;
            granted(&mut claim(&client, "b", LONG)).await;
            let shown = format!("{client:?} {:?}", client.driver());
            assert!(!shown.contains("PRIVATE"), "{shown}");
        }
    })
}
