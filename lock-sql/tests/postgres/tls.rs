//! TLS against a real server.

use std::fs;

use lock_core::{ErrorKind, Result};
use lock_sql::postgres;
use lock_test_servers::{self as servers, Owned, Persistence, Root, Settings};

use crate::Outcome;
use crate::server::{claim, granted, run};

pub(crate) fn the_servers_certificate_and_name_are_verified() -> Outcome {
    only_the_root_that_was_named_is_trusted(["ca", "cert", "key"])
}

/// Roots under these names must not be ignored.
pub(crate) fn roots_under_libpqs_name_are_verified_with() -> Outcome {
    only_the_root_that_was_named_is_trusted(["sslrootcert", "sslcert", "sslkey"])
}

fn only_the_root_that_was_named_is_trusted([roots, cert, key]: [&str; 3]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (ours, others) = (Root::new("a root"), Root::new("another root"));
    let (of_server, of_client) = (ours.certify("server", &["localhost"]), ours.certify("lock", &[]));
    for (file, pem) in [
        ("ca", ours.pem()),
        ("other", others.pem()),
        ("client", of_client.certificate),
        ("client-key", of_client.key),
    ] {
        fs::write(folder.path().join(file), pem).unwrap();
    }
    // A client that connects by the host's name must also show a certificate.
    let rules = "hostssl all all all trust clientcert=verify-ca\nhostnossl all all 127.0.0.1/32 trust\nlocal all all trust\n";
    let files = [
        ("server.crt", of_server.certificate),
        ("server.key", of_server.key),
        ("root.crt", ours.pem()),
        ("hba.conf", rules.to_owned()),
    ];
    let settings = Settings {
        persistence: Persistence::None,
        files: files.map(|(name, text)| (name.to_owned(), text.into_bytes())).to_vec(),
        args: ["ssl=on", "ssl_ca_file=root.crt", "hba_file=data/hba.conf"]
            .iter()
            .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()])
            .collect(),
        ..Settings::default()
    };
    let server = Owned::start(&servers::Postgres::Installed, &settings).expect("the server can be started");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let of_client = format!("{cert}={}&{key}={}", file("client"), file("client-key"));
    run(async {
        let open = async |host: &str, query: String| -> Result<()> {
            let url = server.url().replace("127.0.0.1", host);
            let client = postgres::connect(&format!("{url}?{query}")).await?;
            let mut claim = claim(&client, "a");
            granted(&mut claim).await;
            claim.release().await?;
            let findings = client.check().await?;
            let encryption = findings.iter().find(|finding| finding.subject == "encryption").unwrap();
            assert!(encryption.message.contains("is encrypted"), "{encryption:?}");
            Ok(())
        };
        open("localhost", format!("{roots}={}&{of_client}", file("ca"))).await.unwrap();
        for (host, query) in [
            ("localhost", format!("{roots}={}&{of_client}", file("other"))),
            ("127.0.0.1", format!("{roots}={}&{of_client}", file("ca"))),
            ("localhost", format!("{roots}={}", file("ca"))),
        ] {
            let error = open(host, query.clone()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{host} {query}: {error:?}");
        }
    })
}
