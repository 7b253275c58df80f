//! The messages between `lock` and its watcher: frames of nine bytes, over a pair of connected sockets.
//!
//! Both ends are the same program, so the frames have no version.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal};
use tokio::net::UnixStream;

use super::deadline::Deadline;
use crate::exit::Exit;

/// What `lock` tells the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The lock is certain until then: kill the command at that moment. The last order of this kind counts.
    KillAt(Deadline),
    /// Send this signal to the command's group.
    Signal(Signal),
    /// Kill the command, and everything that it has started, now.
    Kill,
}

/// What the watcher tells `lock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The command runs in this process group.
    Started(Pid),
    /// The command was stopped, and waits to be continued.
    Stopped,
    /// The command has ended with this status, and no process of it is left.
    Ended(Exit),
    /// The deadline has come, and no process of the command is left.
    Killed,
}

const FRAME: usize = 9;
type Frame = [u8; FRAME];

fn frame(tag: u8, value: u64) -> Frame {
    let mut frame = [tag; FRAME];
    frame[1..].copy_from_slice(&value.to_le_bytes());
    frame
}

/// A message that fits into a frame.
pub(super) trait Message: Sized {
    fn to_frame(self) -> Frame;
    /// Returns `None` if this is no message of this type.
    fn from_parts(tag: u8, value: u64) -> Option<Self>;

    fn from_frame(frame: Frame) -> io::Result<Self> {
        let [tag, value @ ..] = frame;
        Self::from_parts(tag, u64::from_le_bytes(value)).ok_or_else(|| {
            io::Error::other("lock and its watcher do not understand each other: a message of unknown kind")
        })
    }
}

impl Message for Order {
    fn to_frame(self) -> Frame {
        match self {
            Order::KillAt(deadline) => frame(0, deadline.to_nanos()),
            Order::Signal(signal) => frame(1, u64::from(signal.as_raw().unsigned_abs())),
            Order::Kill => frame(2, 0),
        }
    }

    fn from_parts(tag: u8, value: u64) -> Option<Order> {
        match tag {
            0 => Some(Order::KillAt(Deadline::from_nanos(value))),
            1 => Signal::from_named_raw(i32::try_from(value).ok()?).map(Order::Signal),
            2 => Some(Order::Kill),
            _ => None,
        }
    }
}

impl Message for Report {
    fn to_frame(self) -> Frame {
        match self {
            Report::Started(group) => frame(0, u64::from(group.as_raw_nonzero().get().unsigned_abs())),
            Report::Stopped => frame(1, 0),
            Report::Ended(Exit::Signal(signal)) => frame(2, u64::from(signal.unsigned_abs())),
            Report::Ended(exit) => frame(3, u64::from(exit.code().unsigned_abs())),
            Report::Killed => frame(4, 0),
        }
    }

    fn from_parts(tag: u8, value: u64) -> Option<Report> {
        let value = i32::try_from(value).ok()?;
        match tag {
            0 => Pid::from_raw(value).map(Report::Started),
            1 => Some(Report::Stopped),
            2 => Some(Report::Ended(Exit::Signal(value))),
            3 => Some(Report::Ended(Exit::Status(value))),
            4 => Some(Report::Killed),
            _ => None,
        }
    }
}

/// Sends the first message on a new socket, together with a descriptor for the other process.
pub(super) fn send_with(
    socket: &Socket,
    message: impl Message,
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    extra.push(SendAncillaryMessage::ScmRights(&descriptors));
    let frame = message.to_frame();
    let sent = sendmsg(socket, &[IoSlice::new(&frame)], &mut extra, SendFlags::empty())?;
    all_of_it(sent)
}

/// Waits for the message of [`send_with`]. Returns `None` if the other process is gone.
pub(super) fn receive_with<M: Message>(socket: impl AsFd) -> io::Result<Option<(M, OwnedFd)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = RecvAncillaryBuffer::new(&mut space);
    let mut frame = [0; FRAME];
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut frame)], &mut extra, RecvFlags::empty())?.bytes;
    if received == 0 {
        return Ok(None);
    }
    all_of_it(received)?;
    let descriptor = extra.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let descriptor = descriptor
        .ok_or_else(|| io::Error::other("the message to the watcher lacks the command's standard input"))?;
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    Ok(Some((M::from_frame(frame)?, descriptor)))
}

/// Checks that a whole frame was sent or received. A socket's buffer has room for thousands of frames: if one does not
/// fit, the other process does not work.
fn all_of_it(bytes: usize) -> io::Result<()> {
    match bytes {
        FRAME => Ok(()),
        _ => {
            Err(io::Error::other("lock and its watcher do not understand each other: an incomplete message"))
        }
    }
}

/// One end of the channel.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    /// The next frame: the bytes that were received so far.
    frame: Frame,
    filled: usize,
}

impl Channel {
    /// Must be called within a tokio runtime.
    pub(super) fn new(socket: Socket) -> io::Result<Channel> {
        socket.set_nonblocking(true)?;
        Ok(Channel { socket: UnixStream::from_std(socket)?, frame: [0; FRAME], filled: 0 })
    }

    /// Sends a message. Never waits.
    pub(super) fn send(&self, message: impl Message) -> io::Result<()> {
        // Not with tokio's `try_write`, which fails until the runtime has polled the socket for the first time.
        all_of_it(rustix::io::write(&self.socket, &message.to_frame())?)
    }

    /// Waits for the next message. Returns `None` when the other process is gone. Cancel safe.
    pub(super) async fn receive<M: Message>(&mut self) -> io::Result<Option<M>> {
        while self.filled < FRAME {
            self.socket.readable().await?;
            match self.socket.try_read(&mut self.frame[self.filled..]) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.filled += bytes,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // The other process ended without reading all messages.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        self.filled = 0;
        M::from_frame(self.frame).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way() {
        let deadline = Deadline::after(|| std::time::Duration::from_secs(7));
        for order in [Order::KillAt(deadline), Order::Signal(Signal::TERM), Order::Kill] {
            assert_eq!(Order::from_frame(order.to_frame()).unwrap(), order);
        }
        let group = Pid::from_raw(4_194_303).unwrap();
        let ends = [Exit::Status(0), Exit::Status(255), Exit::Signal(9)].map(Report::Ended);
        for report in [Report::Started(group), Report::Stopped, Report::Killed].into_iter().chain(ends) {
            assert_eq!(Report::from_frame(report.to_frame()).unwrap(), report);
        }
        assert!(Order::from_frame([9; FRAME]).is_err());
        assert!(Report::from_frame([9; FRAME]).is_err());
    }
}
