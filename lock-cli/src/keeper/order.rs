//! The order that `lock acquire` gives to its keeper.
//!
//! 1. `lock acquire` sends an order over a pair of connected sockets: the parent, the server's URL, and its own
//!    arguments. They don't become arguments of the keeper, because `ps` would show them for as long as the lock is held.
//!    The URL may come from a pipe that only `lock acquire` has (`--on-file <(…)`).
//! 2. The keeper sends one line when it has the lock. If it fails, it says so on stderr and ends, with the status.
//! 3. `lock acquire` sends one byte when it has printed the answer.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream as Socket;

use crate::args::Parent;

/// The longest order: more than the longest command line of usual systems.
const LONGEST: u32 = 16 << 20;

/// The order of `lock acquire` to its keeper.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) parent: Parent,
    pub(super) url: String,
    /// The arguments of `lock acquire`.
    pub(super) args: Vec<OsString>,
}

impl Order {
    pub(super) fn send(&self, mut socket: &Socket) -> io::Result<()> {
        let parent = match self.parent {
            Parent::Process(pid) => pid.to_string(),
            Parent::None => "none".to_owned(),
        };
        let first = [OsStr::new(&parent), OsStr::new(&self.url)];
        let all: Vec<&OsStr> = first.into_iter().chain(self.args.iter().map(OsString::as_os_str)).collect();
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
        let url = all.next()?.into_string().ok()?;
        Some(Order { parent, url, args: all.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_way() {
        let (ours, theirs) = Socket::pair().unwrap();
        let odd = OsString::from_vec(b"\xff --x".to_vec());
        let args = vec!["acquire".into(), odd.clone(), "".into()];
        Order { parent: Parent::Process(4711), url: "redis://h".to_owned(), args }.send(&ours).unwrap();
        let order = Order::receive(&theirs).unwrap();
        assert_eq!((order.parent, order.url.as_str()), (Parent::Process(4711), "redis://h"));
        assert_eq!(order.args, ["acquire".into(), odd, OsString::new()]);
        assert!(Order::receive(&b"\x05\0\0\0hello"[..]).is_none(), "no parent");
        assert!(Order::receive(&b"\xff\xff\xff\xff"[..]).is_none(), "too long");
    }
}
