//! TLS to every node.
#![cfg(feature = "tls")]

use lock_core::ErrorKind;
use lock_test_servers::{CertificateFolder, Owned, Port, Redis, Settings};

use super::nodes::FIVE;
use super::{TTL, options, released, run};

pub(crate) fn the_roots_and_the_clients_certificate_are_every_nodes() {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let file = |name: &str| folder.file(name);
        let nodes: Vec<(Owned, Port)> = (0..FIVE).map(|_| start(&file)).collect();
        let hosts: Vec<String> =
            nodes.iter().map(|(_, port)| format!("127.0.0.1:{}", port.number())).collect();
        let open = |parameters: String| {
            let url = format!("redlocks://{}/?max_ttl=30s{parameters}", hosts.join(","));
            async move { lock_redlock::connect_with(&url, options()).await }
        };
        for refused in [String::new(), format!("&ca={}", file("ca.pem"))] {
            let error = open(refused).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. } | ErrorKind::Rejected), "{error}");
            assert!(error.message().contains(&hosts[0]), "{error}");
        }
        let parameters =
            format!("&ca={}&cert={}&key={}", file("ca.pem"), file("client.pem"), file("client.key"));
        let client = open(parameters.clone()).await.unwrap();
        client.init().await.unwrap();
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        let guard = lock.try_acquire().await.unwrap().unwrap();
        let other = open(parameters).await.unwrap().lock("a").ttl(TTL).build().unwrap();
        let waiter = tokio::spawn(async move { other.acquire().await });
        released(guard).await;
        released(waiter.await.unwrap().unwrap()).await;
        let shown = format!("{client:?} {:?}", client.driver());
        assert!(!shown.contains("PRIVATE"), "{shown}");
    });
}

/// Starts a node, and returns it with the port for TLS clients that have a certificate of the root.
fn start(file: &impl Fn(&str) -> String) -> (Owned, Port) {
    let port = Port::free().unwrap();
    let args = [
        ("--tls-port", port.number().to_string()),
        ("--tls-cert-file", file("server.pem")),
        ("--tls-key-file", file("server.key")),
        ("--tls-ca-cert-file", file("ca.pem")),
        ("--tls-auth-clients", "yes".to_owned()),
    ];
    let args = args.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    (Owned::start(&Redis, &Settings { args, ..Settings::default() }).unwrap(), port)
}
