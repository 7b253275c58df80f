//! The process for which a keeper holds its lock.

use std::io;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{self, Pid};
use tokio::sync::watch;

use crate::args::Parent;
use crate::exit::{Exit, Failure};

/// The pause between two looks, where the system does not tell of the end of a process that is no child.
const EACH: Duration = Duration::from_millis(200);

/// Tells when the parent has ended.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    ended: watch::Receiver<bool>,
    /// So that a parent that does not exist never ends.
    _sender: Option<std::sync::Arc<watch::Sender<bool>>>,
}

impl Watched {
    /// Must be called while the caller of `lock acquire` is known to live: until then its number is not another's.
    pub(super) fn start(parent: Parent) -> Result<Watched, Failure> {
        let (sender, ended) = watch::channel(false);
        let Parent::Process(number) = parent else {
            return Ok(Watched { ended, _sender: Some(sender.into()) });
        };
        let gone = || Failure::new(Exit::Usage, format!("there is no process {number} to be the parent"));
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let process = Process::of(pid).map_err(|e| match e {
            Errno::SRCH => gone(),
            e => io::Error::from(e).into(),
        })?;
        thread::spawn(move || {
            process.wait();
            sender.send_replace(true);
        });
        Ok(Watched { ended, _sender: None })
    }

    /// Waits until the parent has ended. Cancel safe.
    pub(super) async fn ended(&self) {
        // An error means that the thread has ended, which it does only after a panic: then the parent counts as gone.
        let _: Result<_, _> = self.ended.clone().wait_for(|ended| *ended).await.map(drop);
    }
}

/// A process that is no child of this one.
enum Process {
    /// By a descriptor, which never means another process with the same number (pidfd_open(2)).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Descriptor(std::os::fd::OwnedFd),
    Number(Pid),
}

impl Process {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn of(pid: Pid) -> rustix::io::Result<Process> {
        match process::pidfd_open(pid, process::PidfdFlags::empty()) {
            // A kernel before 5.3, or a system that emulates Linux.
            Err(Errno::NOSYS) => Process::by_number(pid),
            descriptor => descriptor.map(Process::Descriptor),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn of(pid: Pid) -> rustix::io::Result<Process> {
        Process::by_number(pid)
    }

    fn by_number(pid: Pid) -> rustix::io::Result<Process> {
        if lives(pid) { Ok(Process::Number(pid)) } else { Err(Errno::SRCH) }
    }

    /// Blocks until the process has ended.
    fn wait(&self) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Process::Descriptor(descriptor) => {
                use rustix::event::{PollFd, PollFlags, poll};

                // The descriptor is readable when the process has ended, and never before.
                while poll(&mut [PollFd::new(descriptor, PollFlags::IN)], None) == Err(Errno::INTR) {}
            }
            Process::Number(pid) => {
                while lives(*pid) {
                    thread::sleep(EACH);
                }
            }
        }
    }
}

fn lives(pid: Pid) -> bool {
    // A process of another user may not be signalled, but lives.
    process::test_kill_process(pid) != Err(Errno::SRCH)
}
