//! What `lock acquire` and its keeper say to each other, over a pair of connected sockets.
//!
//! 1. `lock acquire` sends its own arguments and the parent. They don't become arguments of the keeper, because `ps`
//!    would show them for as long as the lock is held.
//! 2. The keeper sends one line when it has the lock. If it fails, it says so on stderr and ends, with the status.
//! 3. `lock acquire` sends one byte when it has printed the answer.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream as Socket;

use onelock::FencingToken;
use serde_json::{Value, json};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::args::Parent;
use crate::look::millis;

/// The longest order: more than the longest command line of usual systems.
const LONGEST: u32 = 16 << 20;

/// What `lock acquire` wants of the keeper.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) parent: Parent,
    /// The arguments of `lock acquire`.
    pub(super) args: Vec<OsString>,
}

impl Order {
    pub(super) fn send(&self, mut socket: &Socket) -> io::Result<()> {
        let parent = match self.parent {
            Parent::Process(pid) => pid.to_string(),
            Parent::None => "none".to_owned(),
        };
        let all: Vec<&OsStr> =
            [OsStr::new(&parent)].into_iter().chain(self.args.iter().map(OsString::as_os_str)).collect();
        let text = all.join(OsStr::new("\0"));
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        socket.write_all(&length.to_le_bytes())?;
        socket.write_all(text.as_bytes())
    }

    /// Waits for the order. `None` if this is none.
    pub(super) fn receive(mut from: impl Read) -> Option<Order> {
        let mut length = [0; 4];
        from.read_exact(&mut length).ok()?;
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return None;
        }
        let mut text = vec![0; length as usize];
        from.read_exact(&mut text).ok()?;
        let mut all = text.split(|byte| *byte == 0).map(|arg| OsString::from_vec(arg.to_vec()));
        let parent = all.next()?.to_str()?.parse().ok()?;
        Some(Order { parent, args: all.collect() })
    }
}

/// The keeper's answer: it has the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) token: u64,
    pub(super) valid_ms: u64,
    /// The keeper's socket.
    pub(super) keeper: OsString,
    pub(super) pid: u32,
}

impl Granted {
    pub(super) fn new(token: FencingToken, valid_for: std::time::Duration, keeper: &OsStr) -> Granted {
        Granted {
            token: token.get(),
            valid_ms: millis(valid_for),
            keeper: keeper.to_owned(),
            pid: std::process::id(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "token": self.token,
            "valid_ms": self.valid_ms,
            "keeper": self.keeper.to_string_lossy(),
            "pid": self.pid,
        })
    }

    pub(super) fn parse(line: &str) -> Option<Granted> {
        let value: Value = serde_json::from_str(line).ok()?;
        Some(Granted {
            token: value["token"].as_u64()?,
            valid_ms: value["valid_ms"].as_u64()?,
            keeper: value["keeper"].as_str()?.into(),
            pid: value["pid"].as_u64()?.try_into().ok()?,
        })
    }
}

/// Reads from `socket` until the end of a line or until the other process has gone.
pub(super) async fn read_line(socket: &UnixStream) -> io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\n") {
        let mut bytes = [0; 1024];
        socket.readable().await?;
        match socket.try_read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => text.extend_from_slice(&bytes[..read]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            // The other process has ended without reading everything.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => break,
            Err(e) => return Err(e),
        }
    }
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}

/// Writes one line.
pub(super) async fn write_line(socket: &UnixStream, line: &str) -> io::Result<()> {
    let text = format!("{line}\n");
    let mut left = text.as_bytes();
    while !left.is_empty() {
        socket.ready(Interest::WRITABLE).await?;
        match socket.try_write(left) {
            Ok(written) => left = &left[written..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_way() {
        let (ours, theirs) = Socket::pair().unwrap();
        let odd = OsString::from_vec(b"\xff --x".to_vec());
        Order { parent: Parent::Process(4711), args: vec!["acquire".into(), odd.clone(), "".into()] }
            .send(&ours)
            .unwrap();
        let order = Order::receive(&theirs).unwrap();
        assert_eq!(order.parent, Parent::Process(4711));
        assert_eq!(order.args, ["acquire".into(), odd, OsString::new()]);
        assert!(Order::receive(&b"\x05\0\0\0hello"[..]).is_none(), "no parent");
        assert!(Order::receive(&b"\xff\xff\xff\xff"[..]).is_none(), "too long");
    }

    #[test]
    fn a_grant_survives_the_way() {
        let granted = Granted { token: u64::MAX, valid_ms: 29_698, keeper: "/run/a b".into(), pid: 17 };
        assert_eq!(Granted::parse(&granted.to_json().to_string()), Some(granted));
        assert_eq!(Granted::parse(""), None);
    }
}
