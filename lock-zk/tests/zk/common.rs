//! Another client, and what it does to a session.

use std::time::Duration;

use lock_zk::zookeeper_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Another client, of nobody's.
pub(crate) async fn raw(host: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(10)).with_fail_eagerly();
    connector.connect(host).await.expect("up")
}

/// What a server answers to a word of four letters.
pub(crate) async fn word(host: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(host).await.expect("up");
    stream.write_all(word.as_bytes()).await.expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("it answers");
    answer
}

/// Ends a session by taking its place and closing it, until the server says that it is over: its client takes it back.
/// The server makes a session's password of its number.
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
        let mut stream = TcpStream::connect(host).await.expect("up");
        // Who is thrown out again may find the connection reset.
        stream.write_all(&message).await.ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        if answer.get(12..20) == Some(&[0; 8]) {
            return;
        }
    }
}

/// As the server makes it: 16 bytes of `java.util.Random`, seeded by the session's number.
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
