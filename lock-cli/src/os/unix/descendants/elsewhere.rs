//! On systems other than Linux orphans go to the first process of the system, and can't be told from others. There the
//! command is its process group.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{self, Pid, Signal};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::{Ending, Outcome};
use crate::exit::About;
use crate::os::unix::Deadline;
use crate::os::{Found, Survivor, Why};

/// The pause between two looks at the group.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(in super::super) struct Descendants {
    /// SIGCHLD.
    ended: Stream,
    group: Option<Pid>,
    ending: Option<Ending>,
}

impl Descendants {
    pub(in super::super) fn adopt() -> io::Result<Descendants> {
        let ended = signal(SignalKind::child()).about("SIGCHLD")?;
        Ok(Descendants { ended, group: None, ending: None })
    }

    pub(in super::super) async fn change(&mut self) {
        _ = self.ended.recv().await;
    }

    pub(in super::super) fn reap_dead(&mut self, _own: Option<Pid>) {}

    pub(in super::super) fn cost_of_a_look(&self) -> Duration {
        Duration::ZERO
    }

    pub(in super::super) fn left_behind(&self, _leader: Pid) -> Option<(u32, Found)> {
        None
    }

    pub(in super::super) fn begin_to_end(&mut self, group: Option<Pid>, certain_until: Deadline) {
        self.group = self.group.or(group);
        self.ending.get_or_insert_with(|| Ending::begin(group, certain_until));
    }

    /// Kills the group, and waits until its leader has ended and no process is in it. Returns before that if one goes on
    /// that was not reported yet. Cancel safe.
    pub(in super::super) async fn end(&mut self, mut reap_leader: impl FnMut() -> Option<Pid>) -> Outcome {
        loop {
            let killed =
                self.group.map_or(Err(Errno::SRCH), |group| process::kill_process_group(group, Signal::KILL));
            if reap_leader().is_none() && killed == Err(Errno::SRCH) {
                return Outcome::NothingLeft;
            }
            if let (Some(ending), Some(group)) = (&mut self.ending, self.group)
                && ending.told_from.left().is_zero()
            {
                let why = if killed.is_err() { Why::NotAllowed } else { Why::NotEndedYet };
                let found = Found::new(group.as_raw_nonzero().get().unsigned_abs(), b"");
                if let Some(survivor) = ending.news(Survivor { found, why }) {
                    return Outcome::GoesOn(survivor);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
