//! The nodes on the server, and their names.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::driver::{Attempt, Queueing, Release};
use lock_zk::zookeeper_client::{Acls, Client, CreateMode};

use crate::server::{
    LONG, PATIENCE, Server, TTL, busy, children, claim, driver, granted, name, open, run, until, within,
};

pub(crate) fn a_lock_is_curators_directory() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = open(&server.url_with("", "/app")).await;
        let raw = server.raw_at_root().await;
        let mut holder = claim(&client, "invoices", TTL, Queueing::No);
        let grant = granted(&mut holder).await;
        let nodes = children(&raw, "/app/invoices").await;
        let [node] = &nodes[..] else { panic!("{nodes:?}") };
        let uuid = node.strip_prefix("_c_").unwrap().strip_suffix("-lock-0000000000").unwrap();
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        let (data, stat) = raw.get_data(&format!("/app/invoices/{node}")).await.unwrap();
        assert_eq!(String::from_utf8(data).unwrap(), "onelock/1 timeout=2000 an owner");
        assert_eq!(stat.czxid.cast_unsigned(), grant.token.get(), "the token is the node's czxid");
        assert_ne!(stat.ephemeral_owner, 0);
        // Only some releases look for other tickets.
        let released = holder.release().await.unwrap();
        assert!(matches!(released, Release::Released { others: None | Some(false) }), "{released:?}");
    })
}

pub(crate) fn names_are_escaped_into_one_component() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let raw = server.raw().await;
        for (lock, component) in [
            ("a/b", "a%2fb"),
            ("..", "%2e%2e"),
            ("100%", "100%25"),
            ("zookeeper", "%7aookeeper"),
            ("🔒\u{1}", "%f0%9f%94%92%01"),
            ("jób \u{feff}", "jób \u{feff}"),
        ] {
            let mut holder = claim(&client, lock, TTL, Queueing::Queued);
            granted(&mut holder).await;
            assert_eq!(children(&raw, &format!("/{component}")).await.len(), 1, "{lock:?}");
        }
    })
}

async fn put(raw: &Client, path: &str) {
    raw.create(path, b"another's", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await.unwrap();
}

pub(crate) fn nodes_beyond_the_counter_are_ordered_by_creation() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = server.client().await;
        let raw = server.raw().await;
        let mut holder = claim(&client, "a", TTL, Queueing::No);
        granted(&mut holder).await;
        // They are created in the order of neither their names nor their numbers.
        for node in ["c-lock-2147483647", "a-lock--000000009", "b-lock-2147483647", "d-lock-2147483646"] {
            put(&raw, &format!("/a/{node}")).await;
        }
        let seen = driver(&client).inspect(&name("a"), PATIENCE).await.unwrap();
        let waiters: Vec<String> =
            seen.waiters.unwrap().iter().map(|entry| entry.owner.to_string()).collect();
        assert_eq!(
            waiters,
            ["d-lock-2147483646", "c-lock-2147483647", "a-lock--000000009", "b-lock-2147483647"]
        );
    })
}

/// Foreign nodes are before and behind the tickets: a lock's directory below another lock's, and nodes that
/// an operator has made by hand.
pub(crate) fn what_no_session_keeps_is_no_ticket() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, other, raw) = (server.client().await, server.client().await, server.raw().await);
        let make = async |path: &str, mode: CreateMode| {
            raw.create(path, &[], &mode.with_acls(Acls::anyone_all())).await.unwrap();
        };
        make("/bills", CreateMode::Persistent).await;
        make("/bills/invoice-0000000000", CreateMode::Container).await;
        make("/bills/run-0000000001", CreateMode::Persistent).await;
        make("/bills/x-lock-0000000002", CreateMode::Persistent).await;
        make("/bills/x-lock-0000000002/node", CreateMode::Persistent).await;
        make("/bills/run-1700000000", CreateMode::Persistent).await;
        for waits in [Queueing::No, Queueing::Queued] {
            let mut holder = claim(&client, "bills", TTL, waits);
            within("it is free", TTL, async {
                while let Attempt::Busy(_) = holder.attempt().await.unwrap() {}
            })
            .await;
            busy(&mut claim(&other, "bills", TTL, Queueing::No)).await;
            let seen = driver(&other).inspect(&name("bills"), PATIENCE).await.unwrap();
            assert_eq!(
                (seen.holder.unwrap().label.as_deref(), seen.waiters.unwrap().len()),
                (Some("an owner"), 0)
            );
            let mut waiter = claim(&other, "bills", TTL, Queueing::Queued);
            assert!(busy(&mut waiter).await.queued);
            assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
            granted(&mut waiter).await;
            waiter.release().await.unwrap();
        }
    })
}

pub(crate) fn what_looks_like_a_ticket_and_stays_is_rejected() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, raw) = (server.client().await, server.raw().await);
        raw.create("/a", &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
        raw.create("/a/x-lock-0000000000", &[], &CreateMode::Persistent.with_acls(Acls::anyone_all()))
            .await
            .unwrap();
        for waits in [Queueing::No, Queueing::Queued] {
            let mut claim = claim(&client, "a", TTL, waits);
            let error = claim.attempt().await.expect_err("no claim would ever get the lock");
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains("/a/x-lock-0000000000"), "{error}");
            claim.release().await.unwrap();
        }
        assert_eq!(children(&raw, "/a").await, ["x-lock-0000000000"]);
        raw.delete("/a/x-lock-0000000000", None).await.unwrap();
        granted(&mut claim(&client, "a", TTL, Queueing::Queued)).await;
    })
}

/// The server's counter is at its end: it gives the same number to all later nodes.
pub(crate) fn an_overflown_counter_costs_no_exclusion() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let raw = server.raw().await;
        raw.create("/a", &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
        drop(raw);
        overflow::set_counter(&server, "/locks/a", i32::MAX - 1);
        let (a, b) = (server.client().await, server.client().await);
        let mut waiting = Vec::new();
        for n in 0..6 {
            let client = if n % 2 == 0 { &a } else { &b };
            let mut next = claim(client, "a", LONG, Queueing::Queued);
            match n {
                0 => drop(granted(&mut next).await),
                _ => assert!(busy(&mut next).await.queued, "{n}"),
            }
            waiting.push(next);
        }
        let raw = server.raw().await;
        let same = children(&raw, "/a").await.iter().filter(|node| node.ends_with("2147483647")).count();
        assert!(same >= 4, "{:?}", children(&raw, "/a").await);
        let mut last = None;
        for n in 0..6 {
            let token = granted(&mut waiting[n]).await.token;
            assert!(last < Some(token), "{last:?}, then {token:?}");
            last = Some(token);
            for next in &mut waiting[n + 1..] {
                assert!(busy(next).await.queued);
            }
            assert!(matches!(waiting[n].release().await.unwrap(), Release::Released { .. }));
        }
    })
}

/// The directory goes when it has been empty for a while. The folder that the URL names stays.
pub(crate) fn the_folder_stays_and_the_directory_goes() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let client = open(&server.url_with("", "/app/locks")).await;
        let raw = server.raw_at_root().await;
        for _ in 0..2 {
            let mut holder = claim(&client, "a", TTL, Queueing::Queued);
            granted(&mut holder).await;
            holder.release().await.unwrap();
            until("the directory has gone", Duration::from_secs(10), || async {
                raw.check_stat("/app/locks/a").await.unwrap().is_none()
            })
            .await;
        }
        assert!(raw.check_stat("/app/locks").await.unwrap().is_some());
    })
}

// Proves: zk-folder
/// All ways to leave the folder out are the same folder, and no lock is below the root.
pub(crate) fn locks_without_a_folder_are_in_locks() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let mut holder = claim(&server.client().await, "a", LONG, Queueing::No);
        granted(&mut holder).await;
        let raw = server.raw_at_root().await;
        assert_eq!(children(&raw, "/locks/a").await.len(), 1);
        for same in ["/", "/locks", "/locks/"] {
            busy(&mut claim(&open(&server.url_with("", same)).await, "a", TTL, Queueing::No)).await;
        }
        let mut below: Vec<String> = raw.list_children("/").await.unwrap();
        below.sort();
        assert_eq!(below, ["locks", "zookeeper"]);
    })
}

/// Writes a state into a server's data that would otherwise take two thousand million locks.
mod overflow {
    use std::fs;
    use std::path::PathBuf;

    use lock_conformance::Data;

    use crate::server::Server;

    /// Sets the counter of a node's children in the newest snapshot, and starts the server with it.
    pub(super) fn set_counter(server: &Server, path: &str, counter: i32) {
        // The server takes a snapshot when it starts.
        server.0.stop().unwrap();
        server.0.restart(Data::Kept).unwrap();
        server.0.stop().unwrap();
        let folder = server.0.data().join("version-2");
        let files = |kind: &str| -> Vec<PathBuf> {
            let all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            let mut files: Vec<PathBuf> =
                all.filter(|file| file.file_name().unwrap().to_str().unwrap().starts_with(kind)).collect();
            files.sort_by_key(|file| {
                let number = file.extension().unwrap().to_str().unwrap().to_owned();
                u64::from_str_radix(&number, 16).unwrap()
            });
            files
        };
        let newest = files("snapshot").pop().unwrap();
        let mut bytes = fs::read(&newest).unwrap();
        let seals = seals(&bytes);
        let needle: Vec<u8> =
            i32::try_from(path.len()).unwrap().to_be_bytes().into_iter().chain(path.bytes()).collect();
        let at = bytes.windows(needle.len()).position(|window| window == needle).expect("the node is there");
        // Data, rights, then the stat: czxid, mzxid, ctime, mtime, version.
        let mut at = at + needle.len();
        let data = i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()).max(0);
        at += 4 + usize::try_from(data).unwrap() + 8 + 4 * 8 + 4;
        bytes[at..at + 4].copy_from_slice(&counter.to_be_bytes());
        for at in seals {
            let sum = u64::from(adler32(&bytes[..at]));
            bytes[at..at + 8].copy_from_slice(&sum.to_be_bytes());
        }
        fs::write(&newest, bytes).unwrap();
        // Otherwise the server repeats the log's changes on its snapshot.
        files("log").into_iter().for_each(|log| fs::remove_file(log).unwrap());
        server.0.restart(Data::Kept).unwrap();
    }

    /// Returns where the checksums are, each of all bytes before it: at the end, and before the digest of 20 bytes,
    /// where there is one. Behind each is the string "/".
    fn seals(bytes: &[u8]) -> Vec<usize> {
        const SEAL: usize = 8 + 4 + 1;
        let end = bytes.len() - SEAL;
        let seals: Vec<usize> = [end.saturating_sub(20 + SEAL), end]
            .into_iter()
            .filter(|at| bytes[*at..*at + 8] == u64::from(adler32(&bytes[..*at])).to_be_bytes())
            .collect();
        assert_eq!(seals.last(), Some(&end), "a snapshot of this format");
        seals
    }

    fn adler32(bytes: &[u8]) -> u32 {
        let (mut a, mut b) = (1, 0);
        for byte in bytes {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        b << 16 | a
    }
}
