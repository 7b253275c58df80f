//! Ports for servers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

/// A TCP port on which no process listens, and which no other test on this machine gets as long as this is kept.
/// Without this, the port of a server that is not up yet, or is down, would be free for other tests.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Reserves the number for other processes to see, until this process ends. No server that is started here needs
    /// UDP.
    _taken: UdpSocket,
}

impl Port {
    /// Takes a port below those that systems give to outgoing connections (from 32768 on). Otherwise a client that
    /// keeps connecting to a server that is down could be given that server's port, and connect to itself.
    ///
    /// # Errors
    ///
    /// If no port is free between 10000 and 30000.
    pub fn free() -> io::Result<Port> {
        let random = || 10_000 + (RandomState::new().hash_one(std::process::id()) % 20_000) as u16;
        let port = std::iter::repeat_with(random).take(1000).find_map(Port::take);
        port.ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "no free port between 10000 and 30000"))
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn take(number: u16) -> Option<Port> {
        let address = (Ipv4Addr::LOCALHOST, number);
        let taken = UdpSocket::bind(address).ok()?;
        TcpListener::bind(address).ok()?;
        Some(Port { number, _taken: taken })
    }
}
