//! Processes that the command has started and left behind, in whatever group or session they are.
//!
//! When a process ends, its children go to the nearest ancestor that has asked for orphans (prctl(2),
//! PR_SET_CHILD_SUBREAPER). Here that is the watcher or, if the watcher is dead, `lock`. Both can find and end them.

pub(super) use imp::{Orphans, end_group};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::fs;
    use std::io;
    use std::time::Duration;

    use nix::sys::wait;
    use rustix::io::Errno;
    use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// The longest wait for killed processes before all processes are looked at again.
    const LONGEST_LOOK: Duration = Duration::from_millis(50);

    /// Our children that we did not start.
    #[derive(Debug)]
    pub(in super::super) struct Orphans {
        /// SIGCHLD.
        ended: Stream,
        /// Children that existed before the command: those of the program that became this one by exec(2).
        strangers: Vec<Pid>,
    }

    impl Orphans {
        /// Makes orphans among our descendants our children from now on. Must be called within a tokio runtime, and
        /// before the first child is started, so that no end goes unnoticed.
        pub(in super::super) fn adopt() -> io::Result<Orphans> {
            process::set_child_subreaper(Some(process::getpid()))?;
            let strangers = match dead(WaitId::All, WaitIdOptions::NOWAIT) {
                // The usual case, which needs no look through all processes.
                Err(Errno::CHILD) => Vec::new(),
                _ => children(),
            };
            Ok(Orphans { ended: signal(SignalKind::child())?, strangers })
        }

        /// Waits until a child may have ended or been stopped. Cancel safe.
        pub(in super::super) async fn change(&mut self) {
            _ = self.ended.recv().await;
        }

        /// Reaps the children that have ended (waitpid(2)), except `own`, the child that we started: its end is still
        /// to be read.
        pub(in super::super) fn reap_dead(&self, own: Pid) {
            loop {
                let reaped = match next_dead() {
                    Next::Is(pid) if pid != own => reap(pid),
                    Next::Nameless => {
                        children().into_iter().filter(|&child| child != own && reap(child)).count() > 0
                    }
                    Next::Is(_) | Next::None => false,
                };
                if !reaped {
                    return;
                }
            }
        }

        /// Kills every orphan that exists at this moment. Returns how many.
        pub(in super::super) fn kill(&self) -> usize {
            let ours = children().into_iter().filter(|child| !self.strangers.contains(child));
            ours.filter(|&child| process::kill_process(child, Signal::KILL).is_ok()).count()
        }

        /// Kills all orphans, and then their children, until none is left. Also reaps the child that we started.
        /// Processes that may not be killed (set-user-ID programs) are left. Cancel safe.
        pub(in super::super) async fn end(&mut self) {
            loop {
                match dead(WaitId::All, WaitIdOptions::empty()) {
                    Ok(None) if self.kill() == 0 => return,
                    // Looks again even without a signal: if one of them lived on, another client could have the lock
                    // meanwhile.
                    Ok(None) => drop(tokio::time::timeout(LONGEST_LOOK, self.change()).await),
                    Ok(Some(_)) | Err(Errno::INTR) => {}
                    // There is no child.
                    Err(_) => return,
                }
            }
        }
    }

    /// Does nothing. If the watcher is dead, [`Orphans::end`] has ended the whole group: all its processes were orphans
    /// of the watcher, and then ours. They are not killed by the group's number, because that is the number of another
    /// group here if the watcher was in an inner PID namespace, as after `unshare --pid` alone.
    pub(in super::super) async fn end_group(_group: Pid) {}

    fn dead(who: WaitId<'_>, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        process::waitid(who, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | options)
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

    /// Returns our children. Empty if /proc is missing, or belongs to a PID namespace that we are not in.
    fn children() -> Vec<Pid> {
        let Some(own) = Numbers::of("self") else { return Vec::new() };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = processes.filter_map(|entry| Numbers::of(entry.file_name().to_str()?));
        all.filter(|process| process.parent == own.in_each.first().copied())
            .filter_map(|child| Pid::from_raw(*child.in_each.get(own.in_each.len() - 1)?))
            .collect()
    }

    /// The numbers of a process.
    struct Numbers {
        /// The parent's number in the namespace of /proc. That may be an outer namespace, as after `unshare --pid`
        /// alone.
        parent: Option<i32>,
        /// The process's number in that namespace, and in each inner one that the process is in. The last of our own
        /// numbers is the one in our namespace; a child of ours has a number there, too.
        in_each: Vec<i32>,
    }

    impl Numbers {
        /// Reads proc_pid_status(5).
        fn of(process: &str) -> Option<Numbers> {
            if process != "self" && !process.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            // A name may not be valid UTF-8, because the kernel cuts it at 15 bytes.
            let status = fs::read(format!("/proc/{process}/status")).ok()?;
            Numbers::parse(&String::from_utf8_lossy(&status))
        }

        fn parse(status: &str) -> Option<Numbers> {
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            // A kernel without namespaces, or a system that emulates Linux, may have only one number.
            let in_each: Vec<i32> = field("NSpid:")
                .or_else(|| field("Pid:"))?
                .split_whitespace()
                .map(|number| number.parse().ok())
                .collect::<Option<_>>()?;
            let parent = field("PPid:")?.trim().parse().ok();
            (!in_each.is_empty()).then_some(Numbers { parent, in_each })
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_process_has_a_number_in_each_namespace() {
            // A name may contain any text; the kernel escapes the end of a line.
            let status = "Name:\tNSpid: 7\\n\nPid:\t812\nPPid:\t800\nNSpid:\t812\t14\t1\n";
            let numbers = Numbers::parse(status).unwrap();
            assert_eq!((numbers.parent, numbers.in_each), (Some(800), vec![812, 14, 1]));
            assert!(Numbers::parse("Name:\tx\nPPid:\t1\n").is_none());
            // As on a kernel without namespaces, or on a system that emulates Linux.
            let numbers = Numbers::parse("Name:\tx\nTgid:\t812\nPid:\t812\nPPid:\t800\n").unwrap();
            assert_eq!((numbers.parent, numbers.in_each), (Some(800), vec![812]));
            let own = Numbers::of("self").unwrap();
            assert_eq!(own.in_each.last(), Some(&process::getpid().as_raw_nonzero().get()));
        }
    }
}

/// On other systems orphans go to the first process of the system, and can't be told from others.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::io;
    use std::time::Duration;

    use rustix::process::{self, Pid, Signal};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// The stream of SIGCHLD.
    #[derive(Debug)]
    pub(in super::super) struct Orphans(Stream);

    impl Orphans {
        pub(in super::super) fn adopt() -> io::Result<Orphans> {
            Ok(Orphans(signal(SignalKind::child())?))
        }

        pub(in super::super) async fn change(&mut self) {
            _ = self.0.recv().await;
        }

        pub(in super::super) fn reap_dead(&self, _own: Pid) {}

        pub(in super::super) fn kill(&self) -> usize {
            0
        }

        pub(in super::super) async fn end(&mut self) {}
    }

    /// Kills the command's group if the watcher is dead, and waits a moment for its end.
    pub(in super::super) async fn end_group(group: Pid) {
        let _: rustix::io::Result<()> = process::kill_process_group(group, Signal::KILL);
        // Killed processes die quickly, but another process has to reap them, which may take some time.
        for _ in 0..100 {
            if process::test_kill_process_group(group).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
