//! The socket at which `lock release` finds a keeper, and the lines that are sent over it.

use std::io;
use std::path::PathBuf;

use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::handle::{KeeperHandle, hex};
use crate::exit::Failure;

/// The longest line: a lock's name, or the locks that a job holds.
const LONGEST: usize = 1 << 20;

/// A keeper's socket.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: UnixListener,
    path: PathBuf,
}

impl Listening {
    /// Listens for the calls of `lock release`.
    pub(super) fn at(handle: &KeeperHandle) -> Result<Listening, Failure> {
        let path = path(handle);
        match UnixListener::bind(&path) {
            Ok(listener) => Ok(Listening { listener, path }),
            Err(e) => {
                Err(Failure::of_system(&format!("the keeper's socket {} can't be made", shown(&path)), &e))
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !IS_WITHOUT_FILE {
            // Fails if the folder was cleared.
            let _: io::Result<()> = std::fs::remove_file(&self.path);
        }
    }
}

/// Connects to a keeper. Returns `None` if it has ended.
pub(super) async fn connect(handle: &KeeperHandle) -> io::Result<Option<UnixStream>> {
    match UnixStream::connect(path(handle)).await {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        connected => connected.map(Some),
    }
}

/// True where sockets have names that are no files (unix(7), "abstract"): these need no folder, and end with their
/// process.
const IS_WITHOUT_FILE: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Returns the socket's place. It is short on each system, whatever the environment says.
fn path(handle: &KeeperHandle) -> PathBuf {
    let before = if IS_WITHOUT_FILE { "\0" } else { "/tmp/" };
    PathBuf::from(format!("{before}onelock-{}", hex(&handle.socket)))
}

fn shown(path: &std::path::Path) -> String {
    path.display().to_string().replace('\0', "@")
}

/// The lines that come from a socket.
pub(super) struct Lines<'a> {
    socket: &'a UnixStream,
    /// The bytes of the lines that follow, as far as they were read.
    unread: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(socket: &'a UnixStream) -> Lines<'a> {
        Lines { socket, unread: Vec::new() }
    }

    /// Reads until the end of a line, until the other process has gone, or until the line is too long. Cancel safe.
    pub(super) async fn next(&mut self) -> io::Result<String> {
        let end = loop {
            let end = self.unread.iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.or_else(|| (self.unread.len() > LONGEST).then_some(LONGEST)) {
                break end + 1;
            }
            let mut bytes = [0; 1024];
            self.socket.readable().await?;
            match self.socket.try_read(&mut bytes) {
                Ok(0) => break self.unread.len(),
                Ok(read) => self.unread.extend_from_slice(&bytes[..read]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // The other process has ended without reading everything.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => break self.unread.len(),
                Err(e) => return Err(e),
            }
        };
        let line: Vec<u8> = self.unread.drain(..end).collect();
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

/// Reads the only line that comes from `socket`, as [`Lines::next`].
pub(super) async fn read_line(socket: &UnixStream) -> io::Result<String> {
    Lines::of(socket).next().await
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
