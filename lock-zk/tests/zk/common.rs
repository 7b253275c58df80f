//! A client that is not this library's, and how it ends a session.

use std::time::Duration;

use lock_zk::ZooKeeper;
use lock_zk::zookeeper_client::{Acls, Client, CreateMode, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Opens a client of the `zookeeper-client` crate.
pub(crate) async fn raw(host: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(10)).with_fail_eagerly();
    connector.connect(host).await.expect("the server is up")
}

/// Opens a client of the `zookeeper-client` crate whose root is the folder that locks are in if the URL names none.
pub(crate) async fn raw_in_locks(host: &str) -> Client {
    let (client, folder) = (raw(host).await, ZooKeeper::DEFAULT_FOLDER);
    match client.create(folder, &[], &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
        Ok(_) | Err(Error::NodeExists) => {}
        Err(error) => panic!("{folder}: {error}"),
    }
    client.chroot(folder).expect("a path that is in order")
}

/// Returns what a server answers to a command of four letters.
pub(crate) async fn word(host: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(host).await.expect("the server is up");
    stream.write_all(word.as_bytes()).await.expect("the server listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server answers");
    answer
}

/// Ends a session: resumes it on another connection and closes it. Repeats that until the server says that the session
/// is over, because the session's client may resume it, too. The server derives a session's password from its number.
pub(crate) async fn end_session(host: &str, id: i64) {
    let mut message = Vec::new();
    message.extend(45_i32.to_be_bytes()); // how long it is
    message.extend(0_i32.to_be_bytes()); // the protocol
    message.extend(0_i64.to_be_bytes()); // the newest zxid that was seen
    message.extend(10_000_i32.to_be_bytes()); // the timeout
    message.extend(id.to_be_bytes());
    message.extend(16_i32.to_be_bytes());
    message.extend(password(id));
    message.push(0); // not of a read-only server
    let (length, number, close) = (8_i32, 1_i32, -11_i32);
    message.extend([length, number, close].iter().flat_map(|n| n.to_be_bytes()));
    loop {
        let mut stream = TcpStream::connect(host).await.expect("the server is up");
        // If the session's client resumes it first, this connection may be reset.
        stream.write_all(&message).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        if answer.get(12..20) == Some(&[0; 8]) {
            return;
        }
    }
}

/// Returns a session's password as the server makes it: 16 bytes of `java.util.Random`, seeded by the session's number.
fn password(id: i64) -> [u8; 16] {
    const MASK: u64 = (1 << 48) - 1;
    let mut seed = ((id.cast_unsigned() ^ 0xB341_5C00) ^ 0x5_DEEC_E66D) & MASK;
    let mut password = [0; 16];
    for word in password.chunks_mut(4) {
        seed = seed.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        let bits = u32::try_from(seed >> 16).expect("32 bits");
        word.copy_from_slice(&bits.to_le_bytes());
    }
    password
}
