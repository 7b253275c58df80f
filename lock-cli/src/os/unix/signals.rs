//! The signals that this process gets.

use std::io;
use std::task::Poll;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that we got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(pub(super) process::Signal);

impl Signal {
    pub(crate) fn number(self) -> i32 {
        self.0.as_raw()
    }

    /// Not so those that mean whatever a program takes them for.
    pub(crate) fn asks_to_end(self) -> bool {
        ![process::Signal::USR1, process::Signal::USR2].contains(&self.0)
    }
}

/// From now on a file that may not grow (`ulimit -f`) is an error of who writes to it, to stderr for one, and ends no
/// thread or process that is started from here on. Blocked and not ignored, so that [`full_files_may_end`] gives back what
/// was there.
pub(crate) fn outlive_full_files() {
    // Fails for a set that is none.
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGXFSZ).thread_block();
}

/// Takes that back, in a process that has written nothing yet: a signal that waits would end it.
pub(super) fn full_files_may_end() {
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGXFSZ).thread_unblock();
}

/// From now on this process is told of its children, and of one that has ended before. SIGCHLD may have been blocked by the
/// program that started `lock`, which is inherited. To be called when the child is there that is or becomes the command:
/// that finds the signal as `lock` found it.
pub(super) fn hear_of_children() {
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGCHLD).thread_unblock();
}

/// The signals that are passed on to the command, or end the wait for the lock.
#[derive(Debug)]
pub(crate) struct Signals {
    passed_on: Vec<(Signal, Stream)>,
    /// They are kept from ending this process, and are not told of.
    _swallowed: Vec<(Signal, Stream)>,
}

impl Signals {
    const PASSED_ON: [process::Signal; 6] = [
        process::Signal::INT,
        process::Signal::TERM,
        process::Signal::HUP,
        process::Signal::QUIT,
        process::Signal::USR1,
        process::Signal::USR2,
    ];

    /// What a terminal or the end of a session may send to a process, and would stop it.
    const STOPS: [process::Signal; 3] = [process::Signal::TSTP, process::Signal::TTIN, process::Signal::TTOU];

    /// From now on these signals don't end this process.
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals { passed_on: listen_to(&Self::PASSED_ON)?, _swallowed: Vec::new() })
    }

    /// From now on none of them ends or stops this process. Not ignored, because that the command would inherit.
    pub(super) fn swallow() -> io::Result<Signals> {
        let all = [&Self::PASSED_ON[..], &Self::STOPS].concat();
        Ok(Signals { passed_on: Vec::new(), _swallowed: listen_to(&all)? })
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.passed_on {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn listen_to(wanted: &[process::Signal]) -> io::Result<Vec<(Signal, Stream)>> {
    let ignored = ignored_signals();
    let wanted = wanted.iter().filter(|s| ignored & (1 << (s.as_raw() - 1)) == 0);
    let listen = |s: &process::Signal| Ok((Signal(*s), signal(SignalKind::from_raw(s.as_raw()))?));
    wanted.map(listen).collect()
}

/// The signals that whoever started us wants to be ignored, as `nohup` and a shell's `&` do, one bit each: the command
/// must find them ignored too, which it does unless we listen to them. Known on Linux (proc(5)), elsewhere none.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
