//! TLS against a real server.

use lock_core::ErrorKind;
use lock_test_servers::{CertificateFolder, MongoDb};

use crate::server::{LONG, Server, claim, granted, open, run};

pub(crate) fn the_roots_and_the_clients_certificate_are_the_urls() {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let file = |name: &str| folder.file(name);
        // The harness checks without TLS whether the server is up.
        let (server, ca) = (file("server-and-key.pem"), file("ca.pem"));
        let mut args = vec!["--tlsMode", "preferTLS", "--tlsCertificateKeyFile", &server, "--tlsCAFile", &ca];
        for clients in ["may be anonymous", "have certificates"] {
            if clients == "may be anonymous" {
                args.push("--tlsAllowConnectionsWithoutCertificates");
            } else {
                args.pop();
                args[1] = "preferTLS";
            }
            let server = Server::start(&MongoDb::Standalone, &args);
            let url = |parameters: String| format!("{}/?tls=true{parameters}", server.0.url());
            let refused = lock_mongo::connect(&url(String::new())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused:?}");
            assert!(refused.message().contains("?ca="), "{refused}");

            if clients == "may be anonymous" {
                granted(&mut claim(&open(&url(format!("&ca={ca}"))).await, "a", LONG)).await;
            }
            // The `mongodb` crate reads certificate and key from one file, which `key` may name as well.
            let key = if clients == "have certificates" {
                format!("&key={}", file("client-and-key.pem"))
            } else {
                String::new()
            };
            let client = open(&url(format!("&ca={ca}&cert={}{key}", file("client-and-key.pem")))).await;
            granted(&mut claim(&client, "b", LONG)).await;
            let shown = format!("{client:?} {:?}", client.driver());
            assert!(!shown.contains("PRIVATE"), "{shown}");
        }
        let error = lock_mongo::Mongo::from_url(&format!("mongodb://h/?cert={ca}")).unwrap_err();
        assert!(error.message().contains("PRIVATE KEY"), "{error}");
    });
}
