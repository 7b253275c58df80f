//! Processes that the command has started and left behind, in whatever group or session they are.
//!
//! When a process ends, its children go to the nearest ancestor that has asked for orphans (prctl(2),
//! PR_SET_CHILD_SUBREAPER): to the watcher; to `lock` when the watcher itself is dead. Both can find them then, and end
//! them.

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

    /// How long those that were killed are waited for before all are looked at again.
    const LONGEST_LOOK: Duration = Duration::from_millis(50);

    /// Our children that we didn't start.
    #[derive(Debug)]
    pub(in super::super) struct Orphans {
        /// SIGCHLD.
        ended: Stream,
        /// Children that were here before the command: of the program that became this one by exec(2).
        strangers: Vec<Pid>,
    }

    impl Orphans {
        /// From now on orphans among our descendants become children of ours. Within a tokio runtime, before the first
        /// start of a child: no end goes unnoticed.
        pub(in super::super) fn adopt() -> io::Result<Orphans> {
            process::set_child_subreaper(Some(process::getpid()))?;
            let strangers = match dead(WaitId::All, WaitIdOptions::NOWAIT) {
                // As a rule, and then no look through all processes.
                Err(Errno::CHILD) => Vec::new(),
                _ => children(),
            };
            Ok(Orphans { ended: signal(SignalKind::child())?, strangers })
        }

        /// Resolves when a child may have ended or been stopped. Cancel safe.
        pub(in super::super) async fn change(&mut self) {
            _ = self.ended.recv().await;
        }

        /// Buries those that have ended, up to the child that we started ourselves: that is left to be seen.
        pub(in super::super) fn bury_dead(&self, own: Pid) {
            loop {
                let buried = match next_dead() {
                    Next::Is(pid) if pid != own => bury(pid),
                    Next::Nameless => {
                        children().into_iter().filter(|&child| child != own && bury(child)).count() > 0
                    }
                    Next::Is(_) | Next::None => false,
                };
                if !buried {
                    return;
                }
            }
        }

        /// Kills every one that there is at this moment. Answers how many.
        pub(in super::super) fn kill(&self) -> usize {
            let ours = children().into_iter().filter(|child| !self.strangers.contains(child));
            ours.filter(|&child| process::kill_process(child, Signal::KILL).is_ok()).count()
        }

        /// Kills them all, and then those whose parents they were, until none is left. The child that we started
        /// ourselves is buried. Those that may not be killed, set-user-ID programs, are left. Cancel safe.
        pub(in super::super) async fn end(&mut self) {
            loop {
                match dead(WaitId::All, WaitIdOptions::empty()) {
                    Ok(None) if self.kill() == 0 => return,
                    // Looked at again though nothing is told: the lock may be another's when one of them lives on.
                    Ok(None) => drop(tokio::time::timeout(LONGEST_LOOK, self.change()).await),
                    Ok(Some(_)) | Err(Errno::INTR) => {}
                    // There is none.
                    Err(_) => return,
                }
            }
        }
    }

    /// For a watcher that is dead. [`Orphans::end`] has ended the whole group: all of it was the watcher's to adopt, and then
    /// ours. By its number nothing is killed, because that is another group's here if the watcher was in an inner PID
    /// namespace, as behind `unshare --pid` alone.
    pub(in super::super) async fn end_group(_group: Pid) {}

    fn dead(who: WaitId<'_>, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        process::waitid(who, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | options)
    }

    fn bury(child: Pid) -> bool {
        matches!(dead(WaitId::Pid(child), WaitIdOptions::empty()), Ok(Some(_)))
    }

    /// A child that has ended and is not buried.
    enum Next {
        Is(Pid),
        /// There is one, which a real-time signal has killed: nix knows none of these, and doesn't say whom it killed.
        Nameless,
        None,
    }

    fn next_dead() -> Next {
        use wait::WaitPidFlag as Flag;
        // Not by rustix, which doesn't say whose status it is.
        let found = wait::waitid(wait::Id::All, Flag::WEXITED | Flag::WNOHANG | Flag::WNOWAIT);
        match found.map(|status| status.pid().and_then(|pid| Pid::from_raw(pid.as_raw()))) {
            Ok(Some(pid)) => Next::Is(pid),
            Err(nix::errno::Errno::EINVAL) => Next::Nameless,
            Ok(None) | Err(_) => Next::None,
        }
    }

    /// None where /proc is missing, or is that of a PID namespace that we are not in.
    fn children() -> Vec<Pid> {
        let Some(own) = Numbers::of("self") else { return Vec::new() };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = processes.filter_map(|entry| Numbers::of(entry.file_name().to_str()?));
        all.filter(|process| process.parent == own.in_each.first().copied())
            .filter_map(|child| Pid::from_raw(*child.in_each.get(own.in_each.len() - 1)?))
            .collect()
    }

    /// What a process is called.
    struct Numbers {
        /// By the namespace of /proc, which may be an outer one, as after `unshare --pid` alone.
        parent: Option<i32>,
        /// By that namespace, and by each one inside it that the process is in: the last of our own is the one that we
        /// are in, and a child of ours has a number there too.
        in_each: Vec<i32>,
    }

    impl Numbers {
        /// From proc_pid_status(5).
        fn of(process: &str) -> Option<Numbers> {
            if process != "self" && !process.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            // A name need not be UTF-8: the kernel cuts it at 15 bytes.
            let status = fs::read(format!("/proc/{process}/status")).ok()?;
            Numbers::parse(&String::from_utf8_lossy(&status))
        }

        fn parse(status: &str) -> Option<Numbers> {
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            // A kernel without namespaces, and what plays Linux, may know of a single number.
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
            // A name may have anything in it; the kernel escapes the end of a line.
            let status = "Name:\tNSpid: 7\\n\nPid:\t812\nPPid:\t800\nNSpid:\t812\t14\t1\n";
            let numbers = Numbers::parse(status).unwrap();
            assert_eq!((numbers.parent, numbers.in_each), (Some(800), vec![812, 14, 1]));
            assert!(Numbers::parse("Name:\tx\nPPid:\t1\n").is_none());
            // As on a kernel without namespaces, and where another one plays Linux.
            let numbers = Numbers::parse("Name:\tx\nTgid:\t812\nPid:\t812\nPPid:\t800\n").unwrap();
            assert_eq!((numbers.parent, numbers.in_each), (Some(800), vec![812]));
            let own = Numbers::of("self").unwrap();
            assert_eq!(own.in_each.last(), Some(&process::getpid().as_raw_nonzero().get()));
        }
    }
}

/// Elsewhere orphans go to the first process of the system, and can't be told from others.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::io;
    use std::time::Duration;

    use rustix::process::{self, Pid, Signal};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// SIGCHLD.
    #[derive(Debug)]
    pub(in super::super) struct Orphans(Stream);

    impl Orphans {
        pub(in super::super) fn adopt() -> io::Result<Orphans> {
            Ok(Orphans(signal(SignalKind::child())?))
        }

        pub(in super::super) async fn change(&mut self) {
            _ = self.0.recv().await;
        }

        pub(in super::super) fn bury_dead(&self, _own: Pid) {}

        pub(in super::super) fn kill(&self) -> usize {
            0
        }

        pub(in super::super) async fn end(&mut self) {}
    }

    /// For a watcher that is dead.
    pub(in super::super) async fn end_group(group: Pid) {
        let _: rustix::io::Result<()> = process::kill_process_group(group, Signal::KILL);
        // What was killed dies in no time, but is not ours to bury: another process takes its time to.
        for _ in 0..100 {
            if process::test_kill_process_group(group).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
