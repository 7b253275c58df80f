//! Everything that the command has started, in whatever group or session it is: how it is found and ended.
//!
//! When a process ends, its children go to the nearest ancestor that has asked for orphans (prctl(2),
//! PR_SET_CHILD_SUBREAPER). Here that is the watcher or, if the watcher is dead, `lock`. So all that the command has
//! started are descendants of one of the two. That no signal could be sent proves nothing: a process of another user
//! refuses signals and goes on. The proof that nothing goes on is that no child is left.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Pid;

use super::Deadline;
use crate::os::Survivor;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod elsewhere;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod tree;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use elsewhere::Descendants;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::Descendants;

/// The time that a process may take to end before it counts as one that goes on. Also how long a process has to pass
/// SIGTERM on to its children before it gets SIGKILL.
const PATIENCE: Duration = Duration::from_secs(1);

/// The least that a process gets to pass SIGTERM on, also when the lock is certain no longer.
const MOMENT: Duration = Duration::from_millis(20);

/// An ending that has begun.
#[derive(Debug)]
struct Ending {
    /// The process group that gets SIGKILL at once, unless there is a process that may have to pass SIGTERM on.
    group: Option<Pid>,
    /// From then on no process is spared so that it can pass SIGTERM on.
    all_killed_from: Deadline,
    /// From then on a process that has not ended is reported.
    told_from: Deadline,
    /// Processes that have got SIGTERM.
    asked: HashSet<i32>,
    /// The process that was reported last.
    told: Option<Survivor>,
}

impl Ending {
    /// `certain_until` is the moment until which no other holder can have the lock.
    fn begin(group: Option<Pid>, certain_until: Deadline) -> Ending {
        let after = |time| Deadline::after(|| time);
        let told_from = after(PATIENCE);
        Ending {
            group,
            all_killed_from: certain_until.min(told_from).max(after(MOMENT)),
            told_from,
            asked: HashSet::new(),
            told: None,
        }
    }

    /// Returns the survivor if it was not reported yet.
    fn news(&mut self, survivor: Survivor) -> Option<Survivor> {
        (self.told.replace(survivor) != Some(survivor)).then_some(survivor)
    }
}

/// The outcome of an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing of the command is left.
    NothingLeft,
    /// A process goes on. The ending goes on, too.
    GoesOn(Survivor),
}
