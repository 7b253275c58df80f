//! The process for which a keeper holds its lock.

use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{self, Pid};
use tokio::sync::watch;

use crate::args::Parent;
use crate::exit::{About, Exit, Failure};

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
            e => Failure::of_system(&format!("the parent, process {number}, can't be watched"), &e.into()),
        })?;
        let watch = move || {
            process.wait();
            sender.send_replace(true);
        };
        thread::Builder::new().spawn(watch).about("a thread that watches the parent")?;
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
    /// By its number and its start: a process that gets the same number later has started later.
    Number(Pid, Option<String>),
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
        if lives(pid) { Ok(Process::Number(pid, start_of(pid))) } else { Err(Errno::SRCH) }
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
            Process::Number(pid, start) => {
                while lives(*pid) && start_of(*pid) == *start {
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

/// Returns when the process has started, as the system counts that (proc_pid_stat(5)). `None` if it has ended and was not
/// waited for yet, and where the system doesn't say.
fn start_of(pid: Pid) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Its name, in parentheses, may have spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    fields.get(19).filter(|_| fields[0] != "Z").map(|start| (*start).to_owned())
}

// It reads /proc.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_number_with_another_start_is_another_process() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let start = start_of(pid);
        assert!(start.is_some());
        let waits = thread::spawn(move || Process::Number(pid, start).wait());
        // As if the number had been another process's before.
        Process::Number(pid, Some("0".to_owned())).wait();
        assert!(!waits.is_finished());
        drop(child.stdin.take());
        // It has ended, and was not waited for.
        waits.join().unwrap();
        child.wait().unwrap();
    }
}
