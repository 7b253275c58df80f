//! Readers of the server's log: some may be promoted, and some may not.

use std::io::{Read, Write};
use std::net::TcpStream;

use lock_core::Client;
use lock_core::driver::Finding;

use crate::Outcome;
use crate::server::{Site, run, start};

/// A connection on which the server sends its log.
struct Reader(TcpStream);

impl Reader {
    /// Connects with these parameters, and sends these commands, of which the last one starts the log.
    fn start(site: &Site, parameters: &[&str], commands: &[&str]) -> Reader {
        let options = site.options();
        let mut reader = Reader(TcpStream::connect((options.get_host(), options.get_port())).unwrap());
        let own = ["user", options.get_username(), "database", options.get_database().unwrap()];
        let words: Vec<u8> =
            own.iter().chain(parameters).flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        reader.send(&[], &[&196_608_u32.to_be_bytes()[..], &words, b"\0"].concat());
        reader.read_until(b'Z');
        for (n, command) in commands.iter().enumerate() {
            reader.send(b"Q", &[command.as_bytes(), b"\0"].concat());
            reader.read_until(if n + 1 == commands.len() { b'W' } else { b'Z' });
        }
        reader
    }

    fn send(&mut self, kind: &[u8], body: &[u8]) {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        self.0.write_all(&[kind, &length, body].concat()).unwrap();
    }

    fn read_until(&mut self, wanted: u8) {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).unwrap();
            assert_ne!(head[0], b'E', "{}", String::from_utf8_lossy(&body));
            if head[0] == wanted {
                return;
            }
        }
    }
}

async fn replicas(client: &Client) -> Finding {
    let findings = client.check().await.unwrap();
    findings.into_iter().find(|finding| finding.subject == "replicas").unwrap()
}

pub(crate) fn a_log_reader_is_no_standby() -> Outcome {
    run(async {
        let server = start(&["wal_level=logical", "max_wal_senders=5", "max_replication_slots=5"]);
        let site = Site::on(server.url());
        let client = site.client().await;
        let location: String = sqlx::Row::get(&site.row("SELECT pg_current_wal_flush_lsn()::text").await, 0);
        let log = format!("START_REPLICATION PHYSICAL {location}");
        let subscriber = Reader::start(
            &site,
            &["replication", "database"],
            &[
                "CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL pgoutput",
                "START_REPLICATION SLOT s LOGICAL 0/0 (proto_version '1', publication_names 'p')",
            ],
        );
        let archive = ["replication", "true", "application_name", "pg_receivewal"];
        let archive = Reader::start(&site, &archive, &[&log]);
        assert_eq!(site.number("SELECT count(*) FROM pg_stat_replication").await, 2);
        let found = replicas(&client).await;
        assert!(found.message.starts_with("none:"), "{found:?}");
        let standby = Reader::start(&site, &["replication", "true"], &[&log]);
        let found = replicas(&client).await;
        assert!(found.message.starts_with("1, none of them synchronous"), "{found:?}");
        drop((subscriber, archive, standby));
    })
}
