//! The messages between `lock` and its watcher: frames of one size, over a pair of connected sockets.
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
use super::signals;
use crate::exit::{About, Exit};
use crate::os::{Found, Survivor, Why};

/// An order of `lock` to the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The lock is certain until then: kill the command at that moment. The last order of this kind counts.
    KillAt(Deadline),
    /// Send this signal to the command's group.
    Signal(Signal),
    /// Kill the command, and everything that it has started, now.
    Kill,
    /// The rest of the command goes on without the lock: daemons that are kept, or a process that can't be ended.
    LetGo,
}

/// A report of the watcher to `lock`.
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
    /// The command has ended with this status. Its daemons are kept until an order comes.
    LeaderEnded(Exit),
    /// The command has ended and left so many processes running, of which one is named. They are being killed.
    LeftBehind(u32, Found),
    /// A process that was to be ended goes on.
    GoesOn(Survivor),
}

/// A kind, a number, and the name of a process.
const FRAME: usize = 1 + NUMBER + NAME;
const NUMBER: usize = 8;
const NAME: usize = 16;
type Frame = [u8; FRAME];

fn frame(tag: u8, value: u64) -> Frame {
    let mut frame = [0; FRAME];
    frame[0] = tag;
    frame[1..=NUMBER].copy_from_slice(&value.to_le_bytes());
    frame
}

/// A process, and another number.
fn frame_of(tag: u8, found: Found, number: u32) -> Frame {
    let mut frame = frame(tag, u64::from(found.pid) | (u64::from(number) << 32));
    frame[1 + NUMBER..].copy_from_slice(&found.name);
    frame
}

fn frame_of_exit(tag: u8, exit: Exit) -> Frame {
    match exit {
        Exit::Signal(signal) => frame(tag, u64::from(signal.unsigned_abs())),
        exit => frame(tag, (1 << 32) | u64::from(exit.code().unsigned_abs())),
    }
}

/// Reads an exit that [`frame_of_exit`] has written.
fn exit_of(value: u64) -> Option<Exit> {
    let number = i32::try_from(value & u64::from(u32::MAX)).ok()?;
    Some(if value >> 32 == 0 { Exit::Signal(number) } else { Exit::Status(number) })
}

/// A message that fits into a frame.
pub(super) trait Message: Sized {
    fn to_frame(self) -> Frame;
    /// Returns `None` if this is no message of this type.
    fn from_parts(tag: u8, value: u64, name: [u8; NAME]) -> Option<Self>;

    fn from_frame(frame: Frame) -> io::Result<Self> {
        let (mut value, mut name) = ([0; NUMBER], [0; NAME]);
        value.copy_from_slice(&frame[1..=NUMBER]);
        name.copy_from_slice(&frame[1 + NUMBER..]);
        Self::from_parts(frame[0], u64::from_le_bytes(value), name).ok_or_else(|| {
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
            Order::LetGo => frame(3, 0),
        }
    }

    fn from_parts(tag: u8, value: u64, _name: [u8; NAME]) -> Option<Order> {
        match tag {
            0 => Some(Order::KillAt(Deadline::from_nanos(value))),
            1 => signals::of_number(i32::try_from(value).ok()?).map(Order::Signal),
            2 => Some(Order::Kill),
            3 => Some(Order::LetGo),
            _ => None,
        }
    }
}

impl Message for Report {
    fn to_frame(self) -> Frame {
        match self {
            Report::Started(group) => frame(0, u64::from(group.as_raw_nonzero().get().unsigned_abs())),
            Report::Stopped => frame(1, 0),
            Report::Ended(exit) => frame_of_exit(2, exit),
            Report::Killed => frame(3, 0),
            Report::LeaderEnded(exit) => frame_of_exit(4, exit),
            Report::LeftBehind(count, found) => frame_of(5, found, count),
            Report::GoesOn(Survivor { found, why: Why::NotAllowed }) => frame_of(6, found, 0),
            Report::GoesOn(Survivor { found, why: Why::NotEndedYet }) => frame_of(7, found, 0),
        }
    }

    fn from_parts(tag: u8, value: u64, name: [u8; NAME]) -> Option<Report> {
        let [low, high] = [value & u64::from(u32::MAX), value >> 32].map(u32::try_from);
        let (pid, number) = (low.ok()?, high.ok()?);
        let found = Found { pid, name };
        match tag {
            0 => Pid::from_raw(i32::try_from(value).ok()?).map(Report::Started),
            1 => Some(Report::Stopped),
            2 => exit_of(value).map(Report::Ended),
            3 => Some(Report::Killed),
            4 => exit_of(value).map(Report::LeaderEnded),
            5 => Some(Report::LeftBehind(number, found)),
            6 => Some(Report::GoesOn(Survivor { found, why: Why::NotAllowed })),
            7 => Some(Report::GoesOn(Survivor { found, why: Why::NotEndedYet })),
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
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC).about("the command's standard input")?;
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

/// The name of the channel in messages.
pub(super) const CHANNEL: &str = "the sockets between lock and its watcher";

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
        socket.set_nonblocking(true).about(CHANNEL)?;
        Ok(Channel { socket: UnixStream::from_std(socket).about(CHANNEL)?, frame: [0; FRAME], filled: 0 })
    }

    /// Sends a message. Never waits.
    pub(super) fn send(&self, message: impl Message) -> io::Result<()> {
        // Not with tokio's `try_write`, which fails until the runtime has polled the socket for the first time.
        all_of_it(rustix::io::write(&self.socket, &message.to_frame())?)
    }

    /// Waits for the next message. Returns `None` when the other process is gone. Cancel safe.
    pub(super) async fn receive<M: Message>(&mut self) -> io::Result<Option<M>> {
        while self.filled < FRAME {
            self.socket.readable().await.about(CHANNEL)?;
            match self.socket.try_read(&mut self.frame[self.filled..]) {
                Ok(0) => return Ok(None),
                Ok(bytes) => self.filled += bytes,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // The other process ended without reading all messages.
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(e) => return Err(e).about(CHANNEL),
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
        for order in [Order::KillAt(deadline), Order::Signal(Signal::TERM), Order::Kill, Order::LetGo] {
            assert_eq!(Order::from_frame(order.to_frame()).unwrap(), order);
        }
        let group = Pid::from_raw(4_194_303).unwrap();
        let found = Found::new(4_194_303, b"fifteen letters");
        let found = [
            Report::LeftBehind(70_000, found),
            Report::GoesOn(Survivor { found, why: Why::NotAllowed }),
            Report::GoesOn(Survivor { found: Found::HIDDEN, why: Why::NotEndedYet }),
        ];
        let exits = [Exit::Status(0), Exit::Status(255), Exit::Signal(9), Exit::Signal(64)];
        let ends = exits.iter().flat_map(|exit| [Report::Ended(*exit), Report::LeaderEnded(*exit)]);
        let others = [Report::Started(group), Report::Stopped, Report::Killed];
        for report in others.into_iter().chain(ends).chain(found) {
            assert_eq!(Report::from_frame(report.to_frame()).unwrap(), report);
        }
        assert!(Order::from_frame([9; FRAME]).is_err());
        assert!(Report::from_frame([9; FRAME]).is_err());
    }
}
