//! TLS against a real server.
#![cfg(feature = "tls")]

use lock_core::ErrorKind;
use lock_test_servers::{CertificateFolder, Owned, Port, RedisSentinel, RedisSentinels, Settings};

use crate::server::{Server, claim, granted, run};

pub(crate) fn the_roots_and_the_clients_certificate_are_the_urls() {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let file = |name: &str| folder.file(name);
        for clients in ["no", "yes"] {
            let taken = Port::free().unwrap();
            let port = taken.number();
            let _server = Server::start(&[
                "--tls-port",
                &port.to_string(),
                "--tls-cert-file",
                &file("server.pem"),
                "--tls-key-file",
                &file("server.key"),
                "--tls-ca-cert-file",
                &file("ca.pem"),
                "--tls-auth-clients",
                clients,
            ]);
            let open = |parameters: String| async move {
                lock_redis::connect(&format!("rediss://127.0.0.1:{port}{parameters}")).await
            };
            let refused = open(String::new()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
            assert!(refused.message().contains("none of the roots has signed it"), "{refused}");
            assert!(refused.message().contains("ca, cert and key"), "{refused}");

            let anonymous = open(format!("?ca={}", file("ca.pem"))).await;
            match clients {
                "no" => _ = granted(&mut claim(&anonymous.unwrap(), "a", 20_000)).await,
                _ => assert_eq!(anonymous.unwrap_err().kind(), ErrorKind::Rejected),
            }
            let parameters =
                format!("?ca={}&cert={}&key={}", file("ca.pem"), file("client.pem"), file("client.key"));
            let client = open(parameters).await.unwrap();
            granted(&mut claim(&client, "b", 20_000)).await;
            let mut waiter = claim(&client, "b", 20_000);
            waiter.listen().await.unwrap();
            let shown = format!("{client:?} {:?}", client.driver());
            assert!(!shown.contains("PRIVATE"), "{shown}");
        }
    });
}

pub(crate) fn sentinels_and_servers_are_reached_with_the_same_certificates() {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let file = |name: &str| folder.file(name);
        let (server, sentinel) = (Port::free().unwrap(), Port::free().unwrap());
        let lines = |port: &Port| {
            [
                ("tls-port", port.number().to_string()),
                ("tls-cert-file", file("server.pem")),
                ("tls-key-file", file("server.key")),
                ("tls-ca-cert-file", file("ca.pem")),
                ("tls-auth-clients", "yes".to_owned()),
                // Sentinels use TLS where replicas do.
                ("tls-replication", "yes".to_owned()),
            ]
        };
        let arguments: Vec<String> =
            lines(&server).into_iter().flat_map(|(name, value)| [format!("--{name}"), value]).collect();
        let _server = Server::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let service = RedisSentinels::SERVICE;
        let monitor = format!("sentinel monitor {service} 127.0.0.1 {} 1", server.number());
        let lines = lines(&sentinel).into_iter().map(|(name, value)| format!("{name} {value}"));
        let settings = Settings { args: lines.chain([monitor]).collect(), ..Settings::default() };
        let _sentinel = Owned::start(&RedisSentinel, &settings).unwrap();
        let url = format!("rediss+sentinel://127.0.0.1:{}/{service}", sentinel.number());
        let certificates =
            format!("?ca={}&cert={}&key={}", file("ca.pem"), file("client.pem"), file("client.key"));
        let client = lock_redis::connect(&format!("{url}{certificates}")).await.unwrap();
        granted(&mut claim(&client, "a", 20_000)).await;
        let mut waiter = claim(&client, "a", 20_000);
        waiter.listen().await.unwrap();
        for refused in [String::new(), format!("?ca={}", file("ca.pem"))] {
            let error = lock_redis::connect(&format!("{url}{refused}")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.message().contains("TLS"), "{error}");
        }
    });
}

pub(crate) fn files_that_are_none_are_named() {
    let folder = CertificateFolder::make().unwrap();
    let file = |name: &str| folder.file(name);
    for (parameter, path) in [("ca", file("server.key")), ("ca", file("missing.pem"))] {
        let error = lock_redis::Redis::from_url(&format!("rediss://h?{parameter}={path}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains(&path), "{error}");
    }
    let swapped = format!("rediss://h?cert={}&key={}", file("client.key"), file("client.pem"));
    assert_eq!(lock_redis::Redis::from_url(&swapped).unwrap_err().kind(), ErrorKind::Invalid);
}

pub(crate) fn a_ca_used_as_server_certificate_is_explained() {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let (file, taken) = (|name: &str| folder.file(name), Port::free().unwrap());
        let port = taken.number();
        let _server = Server::start(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("ca-as-server.pem"),
            "--tls-key-file",
            &file("ca-as-server.key"),
            "--tls-ca-cert-file",
            &file("ca.pem"),
            "--tls-auth-clients",
            "no",
        ]);
        let url = format!("rediss://127.0.0.1:{port}?ca={}", file("ca-as-server.pem"));
        let error = lock_redis::connect(&url).await.expect_err("it is no server's certificate");
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("CA:FALSE"), "{error}");
    });
}
