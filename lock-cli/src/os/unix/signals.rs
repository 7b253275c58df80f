//! The signals that this process gets.

use std::io;
use std::task::Poll;

use rustix::process;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that we got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(pub(super) process::Signal);

impl Signal {
    pub(crate) fn number(self) -> i32 {
        self.0.as_raw()
    }
}

/// The signals that are passed on to the command, or end the wait for the lock.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, Stream)>);

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
        listen_to(&Self::PASSED_ON)
    }

    /// From now on none of them ends or stops this process. Not ignored, because that the command would inherit.
    pub(super) fn swallow() -> io::Result<Signals> {
        listen_to(&[&Self::PASSED_ON[..], &Self::STOPS].concat())
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

fn listen_to(wanted: &[process::Signal]) -> io::Result<Signals> {
    let ignored = ignored_signals();
    let wanted = wanted.iter().filter(|s| ignored & (1 << (s.as_raw() - 1)) == 0);
    let listen = |s: &process::Signal| Ok((Signal(*s), signal(SignalKind::from_raw(s.as_raw()))?));
    wanted.map(listen).collect::<io::Result<_>>().map(Signals)
}

/// The signals that whoever started us wants to be ignored, as `nohup` and a shell's `&` do, one bit each: the command
/// must find them ignored too, which it does unless we listen to them. Known on Linux (proc(5)), elsewhere none.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
