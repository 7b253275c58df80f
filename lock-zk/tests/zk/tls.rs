//! TLS against a real server.

use std::path::PathBuf;
use std::process::Command;
use std::{fs, io};

use lock_core::driver::Queueing;
use lock_core::{ErrorKind, Options};
use lock_test_servers::catalogue::Listing;
use lock_test_servers::{CertificateFolder, Executable, Owned, Place, Port, Product, Settings, ZooKeeper};

use crate::server::{TTL, claim, granted, open, run};

/// A server with TLS. Debian's program does not find the jars for it, although they are installed.
#[derive(Debug)]
struct Encrypted;

const JARS: &str = "/usr/share/java";

impl Product for Encrypted {
    fn listing(&self) -> &'static Listing {
        ZooKeeper.listing()
    }

    fn data(&self, place: &Place) -> PathBuf {
        ZooKeeper.data(place)
    }

    fn prepare(&self, program: &Executable, place: &Place, settings: &Settings) -> io::Result<()> {
        ZooKeeper.prepare(program, place, settings)
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        let mut command = ZooKeeper.command(program, place, settings);
        let jars = fs::read_dir(JARS).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name == "zookeeper.jar" || (name.starts_with("netty") && name.ends_with(".jar"))
        };
        let wanted: Vec<String> = jars.filter(is_wanted).map(|path| path.display().to_string()).collect();
        if !wanted.is_empty() {
            command.env("SERVER_JVMFLAGS", format!("-cp {}", wanted.join(":")));
        }
        command
    }

    fn url(&self, place: &Place) -> String {
        ZooKeeper.url(place)
    }

    fn own_url(&self, place: &Place) -> String {
        ZooKeeper.own_url(place)
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        ZooKeeper.greet(url)
    }
}

pub(crate) fn the_roots_and_the_clients_certificate_are_the_urls() -> Result<(), String> {
    run(async {
        let folder = CertificateFolder::make().unwrap();
        let file = |name: &str| folder.file(name);
        for clients in ["none", "need"] {
            let taken = Port::free().unwrap();
            let port = taken.number();
            let args = vec![
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
                format!("secureClientPort={port}"),
                "secureClientPortAddress=127.0.0.1".to_owned(),
                format!("ssl.keyStore.location={}", file("server-and-key.pem")),
                format!("ssl.trustStore.location={}", file("ca.pem")),
                format!("ssl.clientAuth={clients}"),
            ];
            let _server = Owned::start(&Encrypted, &Settings { args, ..Settings::default() }).unwrap();
            let url = |parameters: String| format!("zks://localhost:{port}?tick=100ms{parameters}");
            let certificate = format!("&cert={}&key={}", file("client-and-key.pem"), file("client.key"));
            let whole = url(format!("&ca={}{certificate}", file("ca.pem")));
            let client = open(&whole).await;
            granted(&mut claim(&client, "a", TTL, Queueing::No)).await;
            let shown = format!("{client:?} {:?}", client.driver());
            assert!(!shown.contains("PRIVATE"), "{shown}");

            // Refused are another root than the server's, and a client without a certificate where the server needs
            // one.
            let mut bad = vec![url(format!("&ca={}{certificate}", file("another.pem")))];
            match clients {
                "need" => bad.push(url(format!("&ca={}", file("ca.pem")))),
                _ => drop(open(&url(format!("&ca={}", file("ca.pem")))).await),
            }
            for url in bad {
                let options = Options::default().patience(TTL / 4);
                let error = lock_zk::connect_with(&url, options).await.unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
            }
        }
        for bad in [url_of("ca=/no/such/file"), url_of(""), url_of(&format!("ca={}&cert=/x", file("ca.pem")))]
        {
            assert_eq!(lock_zk::ZooKeeper::from_url(&bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
        }
    })
}

fn url_of(parameters: &str) -> String {
    format!("zks://h?{parameters}")
}
