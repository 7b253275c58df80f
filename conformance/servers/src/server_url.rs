//! The URL of a server, taken apart at its hosts, and connections to it.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// A server has this long for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The URL of a server, taken apart at its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerUrl<'a> {
    /// The scheme and the login.
    before: &'a str,
    hosts: &'a str,
    /// The path and the parameters.
    after: &'a str,
}

impl<'a> ServerUrl<'a> {
    /// Takes a URL apart.
    ///
    /// # Errors
    ///
    /// If it has no scheme. The error does not quote it, since it may have a password.
    pub fn parse(url: &'a str) -> io::Result<ServerUrl<'a>> {
        let scheme =
            url.find("://").ok_or_else(|| io::Error::other("this is not a URL: it has no scheme"))?;
        let start = scheme + "://".len();
        let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
        let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
        Ok(ServerUrl { before: &url[..start], hosts: &url[start..end], after: &url[end..] })
    }

    /// Returns its hosts with their ports, as it has them: `a:1,b:2`.
    pub fn hosts(&self) -> &'a str {
        self.hosts
    }

    /// Returns its path: `/0`, or nothing.
    pub fn path(&self) -> &'a str {
        self.after.split('?').next().unwrap_or(self.after)
    }

    /// Returns the address of its only host, as `host:port`. `default_port` is the port that the URL need not name.
    pub fn address(&self, default_port: u16) -> String {
        with_port(self.hosts, default_port)
    }

    /// Returns the URL with another address in the place of its hosts.
    pub fn at(&self, address: impl Display) -> String {
        format!("{}{address}{}", self.before, self.after)
    }
}

fn with_port(host: &str, default_port: u16) -> String {
    let has_port = host.contains("]:") || (host.contains(':') && !host.ends_with(']'));
    if has_port { host.to_owned() } else { format!("{host}:{default_port}") }
}

/// A connection to a server.
pub(super) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// Connects to the socket of a URL `unix://PATH`, otherwise to the first of the URL's hosts that can be reached. The
/// connection waits for each byte as long as for itself.
pub(super) fn connect(url: &str, default_port: u16, patience: Duration) -> io::Result<Box<dyn Stream>> {
    match url.strip_prefix("unix://") {
        Some(path) => connect_to_socket(Path::new(path), patience),
        None => Ok(Box::new(connect_to_first(ServerUrl::parse(url)?.hosts(), default_port, patience)?)),
    }
}

/// Returns everything that the server at `url` answers to a request before it closes the connection.
pub(super) fn exchange(url: &str, default_port: u16, request: &str) -> io::Result<String> {
    let mut stream = connect(url, default_port, PATIENCE)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(unix)]
fn connect_to_socket(path: &Path, patience: Duration) -> io::Result<Box<dyn Stream>> {
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(Box::new(stream))
}

#[cfg(not(unix))]
fn connect_to_socket(_: &Path, _: Duration) -> io::Result<Box<dyn Stream>> {
    Err(io::ErrorKind::Unsupported.into())
}

fn connect_to_first(hosts: &str, default_port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut refused = io::Error::other("the URL names no host");
    for host in hosts.split(',') {
        for address in with_port(host, default_port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(patience))?;
                    stream.set_write_timeout(Some(patience))?;
                    return Ok(stream);
                }
                Err(e) => refused = e,
            }
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn parsed(url: &str) -> ServerUrl<'_> {
        ServerUrl::parse(url).expect("it has a scheme")
    }

    #[test]
    fn the_hosts_are_between_the_login_and_the_path() {
        for (url, hosts, path) in [
            ("redis://h", "h", ""),
            ("zk://a:1,b:2/locks?tick=100ms", "a:1,b:2", "/locks"),
            ("etcd://h:2379?election=200ms", "h:2379", ""),
            ("mongodb://me:p@ss@h:1/app?a=b@c", "h:1", "/app"),
        ] {
            assert_eq!((parsed(url).hosts(), parsed(url).path()), (hosts, path), "{url}");
            assert_eq!(parsed(url).at(hosts), url);
        }
        assert_eq!(parsed("redis://me@h/3?prefix=p").at("127.0.0.1:9"), "redis://me@127.0.0.1:9/3?prefix=p");
        assert!(ServerUrl::parse("/var/run/a.sock").is_err());
    }

    #[test]
    fn a_host_without_a_port_has_the_default() {
        for (hosts, address) in
            [("h", "h:6379"), ("h:1", "h:1"), ("[::1]", "[::1]:6379"), ("[::1]:1", "[::1]:1")]
        {
            assert_eq!(parsed(&format!("redis://{hosts}")).address(6379), address);
        }
    }

    #[test]
    fn a_host_that_refuses_is_passed_over() {
        let there = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = there.local_addr().expect("it is bound").port();
        // No program listens at port 1 of this machine.
        let hosts = format!("127.0.0.1:1,127.0.0.1:{port}");
        let stream = connect_to_first(&hosts, 1, Duration::from_secs(1)).expect("one listens");
        assert_eq!(stream.peer_addr().expect("it is connected").port(), port);
        assert!(connect_to_first("127.0.0.1", 1, Duration::from_secs(1)).is_err());
    }
}
