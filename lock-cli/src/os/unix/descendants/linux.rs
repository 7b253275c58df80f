use std::io;
use std::time::{Duration, Instant};

use nix::sys::wait;
use rustix::io::Errno;
use rustix::process::{self, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::tree::{Node, Reader, State};
use super::{Ending, Outcome};
use crate::exit::About;
use crate::os::unix::Deadline;
use crate::os::{Found, Survivor, Why};

/// The longest wait for processes that were killed before they are looked for again: one that was missed, or that was
/// started by another user's process, gives no signal.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The processes that descend from this one.
#[derive(Debug)]
pub(in super::super) struct Descendants {
    /// SIGCHLD.
    ended: Stream,
    /// Children that existed before the command: those of the program that became this one by exec(2).
    strangers: Vec<Pid>,
    reader: Reader,
    ending: Option<Ending>,
}

/// A process that was found.
struct Target {
    node: Node,
    pid: Option<Pid>,
    /// The process lives, and the system does not let us signal it.
    refuses: bool,
    /// There is one below it that refuses signals, to which only this one can pass them on.
    is_above: bool,
}

impl Target {
    fn is_in(&self, group: Option<Pid>) -> bool {
        let number = |pid: Pid| nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
        // Not with rustix, which does not accept 0, the number of a group outside of our PID namespace.
        let own = || self.pid.and_then(|pid| nix::unistd::getpgid(Some(number(pid))).ok());
        group.is_some_and(|group| own() == Some(number(group)))
    }
}

impl Descendants {
    /// Makes orphans among our descendants our children from now on. Must be called within a tokio runtime, and before
    /// the first child is started, so that no end goes unnoticed.
    pub(in super::super) fn adopt() -> io::Result<Descendants> {
        process::set_child_subreaper(Some(process::getpid())).about("the adoption of orphans (prctl)")?;
        let reader = Reader::new().about("/proc")?;
        let strangers = match no_child_is_left() {
            // The usual case.
            true => Vec::new(),
            false => children(reader).about("/proc/self/task")?,
        };
        let ended = signal(SignalKind::child()).about("SIGCHLD")?;
        Ok(Descendants { ended, strangers, reader, ending: None })
    }

    /// Waits until a child may have ended or been stopped. Cancel safe.
    pub(in super::super) async fn change(&mut self) {
        _ = self.ended.recv().await;
    }

    /// Reaps the children that have ended (waitpid(2)), except `own`, the child that we started and whose end is still
    /// to be read.
    pub(in super::super) fn reap_dead(&mut self, own: Option<Pid>) {
        loop {
            let dead: Vec<Pid> = match next_dead() {
                Next::Is(pid) if Some(pid) != own => vec![pid],
                Next::Nameless => self.children().into_iter().filter(|child| Some(*child) != own).collect(),
                Next::Is(_) | Next::None => return,
            };
            let reaped: Vec<Pid> = dead.into_iter().filter(|child| reap(*child)).collect();
            if reaped.is_empty() {
                return;
            }
            // The number of a stranger that has ended may become that of a process of the command.
            self.strangers.retain(|stranger| !reaped.contains(stranger));
        }
    }

    /// Returns how long it takes to find all descendants.
    pub(in super::super) fn cost_of_a_look(&self) -> Duration {
        let began = Instant::now();
        let _: io::Result<Vec<Node>> = self.reader.look(&self.strangers);
        began.elapsed()
    }

    /// Returns how many live except `leader`, and one of them. Those that refuse signals do not count.
    pub(in super::super) fn left_behind(&self, leader: Pid) -> Option<(u32, Found)> {
        let mut left = None;
        for target in self.targets().unwrap_or_default() {
            if target.pid == Some(leader) || target.refuses {
                continue;
            }
            if let Some(state) = State::of(target.node.number).filter(|state| state.lives) {
                let (count, _) = left.get_or_insert_with(|| (0, state.found(target.pid.map_or(0, raw))));
                *count += 1;
            }
        }
        left
    }

    /// Begins to end all descendants, of which the process group `group` gets its signal at once. Until `certain_until`
    /// no other holder can have the lock.
    pub(in super::super) fn begin_to_end(&mut self, group: Option<Pid>, certain_until: Deadline) {
        self.ending.get_or_insert_with(|| Ending::begin(group, certain_until));
    }

    /// Kills all descendants, again and again, until none is left. Returns before that if one goes on that was not told
    /// of yet. `reap_leader` reaps the child that we started, and returns its number if it has not ended. Cancel safe:
    /// called again, it goes on.
    pub(in super::super) async fn end(&mut self, mut reap_leader: impl FnMut() -> Option<Pid>) -> Outcome {
        loop {
            if let Some(outcome) = self.round(&mut reap_leader) {
                return outcome;
            }
            drop(tokio::time::timeout(LONGEST_PAUSE, self.change()).await);
        }
    }

    fn round(&mut self, reap_leader: impl FnOnce() -> Option<Pid>) -> Option<Outcome> {
        let targets = self.targets();
        self.kill(targets.as_deref().unwrap_or_default());
        self.reap_dead(reap_leader());
        if no_child_is_left() || (!self.strangers.is_empty() && self.nothing_lives()) {
            return Some(Outcome::NothingLeft);
        }
        if !self.ending.as_ref()?.told_from.left().is_zero() {
            return None;
        }
        let survivor = match targets {
            Ok(targets) if !targets.is_empty() => match first_living(&targets) {
                Some(survivor) => survivor,
                // They have ended, and a process that traces them has not taken notice (ptrace(2)).
                None => return self.nothing_lives().then_some(Outcome::NothingLeft),
            },
            _ => Survivor { found: Found::HIDDEN, why: Why::NotEndedYet },
        };
        self.ending.as_mut()?.news(survivor).map(Outcome::GoesOn)
    }

    /// Looks twice: one look may miss a process whose sibling ends.
    fn nothing_lives(&self) -> bool {
        let all_have_ended = || self.targets().is_ok_and(|targets| first_living(&targets).is_none());
        all_have_ended() && all_have_ended()
    }

    fn targets(&self) -> io::Result<Vec<Target>> {
        let nodes = self.reader.look(&self.strangers)?;
        let mut targets: Vec<Target> = nodes.into_iter().map(|node| self.target(node)).collect();
        for child in (0..targets.len()).rev() {
            let Target { node, refuses, is_above, .. } = targets[child];
            if let (true, Some(parent)) = (refuses || is_above, node.parent) {
                targets[parent].is_above = true;
            }
        }
        Ok(targets)
    }

    fn target(&self, node: Node) -> Target {
        let pid = self.reader.pid(node.number);
        let signalled = pid.map_or(Err(Errno::SRCH), process::test_kill_process);
        // EPERM, or EACCES of a security module. A process that has ended refuses, too, until it is reaped.
        let refuses = !matches!(signalled, Ok(()) | Err(Errno::SRCH))
            && State::of(node.number).is_none_or(|state| state.lives);
        Target { node, pid, refuses, is_above: false }
    }

    fn kill(&mut self, targets: &[Target]) {
        let Some(ending) = &mut self.ending else { return };
        let killed = ending.group.take().filter(|_| targets.iter().all(|target| !target.refuses));
        if let Some(group) = killed {
            let _: rustix::io::Result<()> = process::kill_process_group(group, Signal::KILL);
        }
        let all = ending.all_killed_from.left().is_zero();
        for target in targets.iter().filter(|target| !target.refuses && !target.is_in(killed)) {
            let parent = target.node.parent.map(|parent| targets[parent].node.number);
            if all || !target.is_above {
                send(self.reader, target, parent, Signal::KILL);
            } else if ending.asked.insert(target.node.number) {
                send(self.reader, target, parent, Signal::TERM);
                send(self.reader, target, parent, Signal::CONT);
            }
        }
    }

    fn children(&self) -> Vec<Pid> {
        children(self.reader).unwrap_or_default()
    }
}

fn children(reader: Reader) -> io::Result<Vec<Pid>> {
    let nodes = reader.look(&[])?;
    Ok(nodes.iter().filter(|node| node.parent.is_none()).filter_map(|node| reader.pid(node.number)).collect())
}

/// Sends a signal to a process below the process `parent`, or to a child of ours.
fn send(reader: Reader, target: &Target, parent: Option<i32>, signal: Signal) {
    let Some(pid) = target.pid else { return };
    let Some(parent) = parent else {
        // It is not reaped, so the number is still its own.
        let _: rustix::io::Result<()> = process::kill_process(pid, signal);
        return;
    };
    // Its parent may have reaped it, and the number may be another process's. The descriptor then leads to that one, or
    // to none. A kernel before 5.3 has no descriptors: there it is killed when it has become our child.
    if let Ok(descriptor) = process::pidfd_open(pid, PidfdFlags::empty())
        && reader.is_child(target.node.number, parent)
    {
        let _: rustix::io::Result<()> = process::pidfd_send_signal(descriptor, signal);
    }
}

/// Returns a process that goes on, if possible one that refuses signals.
fn first_living(targets: &[Target]) -> Option<Survivor> {
    let refusing = targets.iter().find(|target| target.refuses);
    let living =
        || targets.iter().find(|target| State::of(target.node.number).is_some_and(|state| state.lives));
    let target = refusing.or_else(living)?;
    let why = if target.refuses { Why::NotAllowed } else { Why::NotEndedYet };
    let number = target.pid.map_or(0, raw);
    let found = State::of(target.node.number).map_or(Found::new(number, b""), |state| state.found(number));
    Some(Survivor { found, why })
}

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

fn dead(who: WaitId<'_>, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
    process::waitid(who, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | options)
}

/// Returns whether we have no child, not even one that has ended and is not reaped.
fn no_child_is_left() -> bool {
    dead(WaitId::All, WaitIdOptions::NOWAIT).err() == Some(Errno::CHILD)
}

fn reap(child: Pid) -> bool {
    matches!(dead(WaitId::Pid(child), WaitIdOptions::empty()), Ok(Some(_)))
}

/// A child that has ended and is not reaped yet.
enum Next {
    Is(Pid),
    /// There is one that a real-time signal has killed. nix does not know these signals, and does not return the
    /// process.
    Nameless,
    None,
}

fn next_dead() -> Next {
    use wait::WaitPidFlag as Flag;
    // Not with rustix, which does not return the process of the status.
    let found = wait::waitid(wait::Id::All, Flag::WEXITED | Flag::WNOHANG | Flag::WNOWAIT);
    match found.map(|status| status.pid().and_then(|pid| Pid::from_raw(pid.as_raw()))) {
        Ok(Some(pid)) => Next::Is(pid),
        Err(nix::errno::Errno::EINVAL) => Next::Nameless,
        Ok(None) | Err(_) => Next::None,
    }
}
