//! The process for which a keeper holds its lock.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{self, Pid};

use crate::args::Parent;
use crate::exit::{Exit, Failure};

/// The pause between two looks, where the system does not tell of the end of a process that is no child.
const EACH: Duration = Duration::from_millis(200);

/// Tells when the parent has ended.
#[derive(Debug)]
pub(super) enum Watched {
    /// By a descriptor of the process, which never means another one with the same number (pidfd_open(2)).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    ByDescriptor(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    ByLooks(Pid),
    Never,
}

impl Watched {
    /// Must be called within a tokio runtime, and while the caller of `lock acquire` is known to live.
    pub(super) fn start(parent: Parent) -> Result<Watched, Failure> {
        let Parent::Process(number) = parent else { return Ok(Watched::Never) };
        let gone = || Failure::new(Exit::Usage, format!("there is no process {number} to be the parent"));
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        match Watched::of(pid) {
            Ok(watched) => Ok(watched),
            Err(Errno::SRCH) => Err(gone()),
            Err(e) => Err(io::Error::from(e).into()),
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn of(pid: Pid) -> rustix::io::Result<Watched> {
        use tokio::io::{Interest, unix::AsyncFd};

        match process::pidfd_open(pid, process::PidfdFlags::empty()) {
            Ok(descriptor) => Ok(AsyncFd::with_interest(descriptor, Interest::READABLE)
                .map_or(Watched::ByLooks(pid), Watched::ByDescriptor)),
            // A kernel before 5.3, or a system that emulates Linux.
            Err(Errno::NOSYS) => Watched::by_looks(pid),
            Err(e) => Err(e),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn of(pid: Pid) -> rustix::io::Result<Watched> {
        Watched::by_looks(pid)
    }

    fn by_looks(pid: Pid) -> rustix::io::Result<Watched> {
        match lives(pid) {
            true => Ok(Watched::ByLooks(pid)),
            false => Err(Errno::SRCH),
        }
    }

    /// Waits until the parent has ended. Cancel safe.
    pub(super) async fn ended(&self) {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Watched::ByDescriptor(descriptor) => {
                // The descriptor is readable when the process has ended, and never before.
                let _: io::Result<_> = descriptor.readable().await.map(drop);
            }
            Watched::ByLooks(pid) => {
                while lives(*pid) {
                    tokio::time::sleep(EACH).await;
                }
            }
            Watched::Never => std::future::pending().await,
        }
    }
}

fn lives(pid: Pid) -> bool {
    // A process of another user may not be signalled, but lives.
    !matches!(process::test_kill_process(pid), Err(Errno::SRCH))
}
