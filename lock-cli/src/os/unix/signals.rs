//! The signals that this process gets.

use std::fs::File;
use std::io;
use std::task::Poll;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::About;

/// A signal that this process got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(pub(super) process::Signal);

impl Signal {
    pub(crate) fn number(self) -> i32 {
        self.0.as_raw()
    }

    /// Returns whether the signal asks a program to end. SIGUSR1 and SIGUSR2 don't: each program gives them
    /// its own meaning.
    pub(crate) fn asks_to_end(self) -> bool {
        self.ends_a_wait() && ![process::Signal::USR1, process::Signal::USR2].contains(&self.0)
    }

    /// Returns whether the signal continues a stopped process.
    pub(crate) fn continues(self) -> bool {
        self.0 == process::Signal::CONT
    }

    /// Returns whether the signal ends a call that has no command yet: if it would end a program that does
    /// not know it. SIGWINCH would not, but images of containers name it as the signal that stops them. A
    /// terminal sends it whenever the size of its window changes, so without a terminal it was sent on
    /// purpose.
    fn ends_a_wait(self) -> bool {
        match self.0 {
            process::Signal::WINCH => File::open("/dev/tty").is_err(),
            process::Signal::CONT | process::Signal::URG => false,
            #[cfg(target_vendor = "apple")]
            process::Signal::INFO => false,
            _ => true,
        }
    }
}

/// Returns the signal with this number, also a real-time signal.
pub(super) fn of_number(number: i32) -> Option<process::Signal> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return rustix_libc_wrappers::process::SignalExt::from_raw(number);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    return process::Signal::from_named_raw(number);
}

/// From now on, writing to a file that may not grow (`ulimit -f`) is an error of the writer, for example on stderr. It
/// no longer ends this process, or a thread or process that is started from now on. The signal is blocked and not
/// ignored, so that [`full_files_may_end`] can restore the state before.
pub(crate) fn outlive_full_files() {
    // Fails only for an invalid set.
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGXFSZ).thread_block();
}

/// Undoes [`outlive_full_files`]. Must be called in a process that has written nothing yet: a pending signal would end
/// it.
pub(super) fn full_files_may_end() {
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGXFSZ).thread_unblock();
}

/// From now on, if this thread reads the terminal while another process group has it, the read fails. It would otherwise
/// stop this process, and with it the renewals.
pub(crate) fn fail_instead_of_stopping() -> io::Result<()> {
    SigSet::from(NixSignal::SIGTTIN).thread_block().about("SIGTTIN")
}

/// From now on, if this thread writes to the terminal while another process group has it, it writes. It would otherwise
/// stop this process, and with it the renewals, at a terminal that is set so (`stty tostop`).
pub(crate) fn write_instead_of_stopping() {
    // Fails only for an invalid set.
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGTTOU).thread_block();
}

/// From now on this process is told when a child ends, also if one has ended before. The program that started `lock`
/// may have blocked SIGCHLD, which is inherited. Must be called after the child was started that is or becomes the
/// command: the command then has the signal in the state in which `lock` found it.
pub(super) fn hear_of_children() {
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGCHLD).thread_unblock();
}

/// The signals that are passed on to the command, or end the wait for the lock.
#[derive(Debug)]
pub(crate) struct Signals {
    passed_on: Vec<(Signal, Stream)>,
    /// Signals that must not end this process, and that are not reported.
    _swallowed: Vec<(Signal, Stream)>,
}

impl Signals {
    /// The signals that are not passed on: those that no process can catch; those that tell a process of its own fault
    /// or its own writing; SIGCHLD, which tells of our own children; and those of [`STOPS`](Self::STOPS).
    const NOT_PASSED_ON: [process::Signal; 14] = [
        process::Signal::KILL,
        process::Signal::STOP,
        process::Signal::BUS,
        process::Signal::FPE,
        process::Signal::ILL,
        process::Signal::SEGV,
        process::Signal::SYS,
        process::Signal::TRAP,
        process::Signal::PIPE,
        process::Signal::XFSZ,
        process::Signal::CHILD,
        process::Signal::TSTP,
        process::Signal::TTIN,
        process::Signal::TTOU,
    ];

    /// The signals with which a terminal or the end of a session may stop a process.
    const STOPS: [process::Signal; 3] = [process::Signal::TSTP, process::Signal::TTIN, process::Signal::TTOU];

    /// Listens to the signals that are passed on. From now on they don't end this process.
    pub(crate) fn listen() -> io::Result<Signals> {
        Ok(Signals { passed_on: listen_to(&all_passed_on())?, _swallowed: Vec::new() })
    }

    /// From now on none of these signals ends or stops this process. They are not ignored, because the command would
    /// inherit that.
    pub(super) fn swallow() -> io::Result<Signals> {
        let all = [all_passed_on(), Self::STOPS.to_vec()].concat();
        Ok(Signals { passed_on: Vec::new(), _swallowed: listen_to(&all)? })
    }

    /// Waits for the next signal that ends a call without a command. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        loop {
            let signal = self.next_to_pass_on().await;
            if signal.ends_a_wait() {
                return signal;
            }
        }
    }

    /// Waits for the next signal of any kind. Cancel safe.
    pub(crate) async fn next_to_pass_on(&mut self) -> Signal {
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

fn all_passed_on() -> Vec<process::Signal> {
    let all = (1..=LAST).filter_map(of_number);
    all.filter(|signal| !Signals::NOT_PASSED_ON.contains(signal)).collect()
}

/// The highest number that a signal has: on Linux that of the last real-time signal.
const LAST: i32 = if cfg!(any(target_os = "linux", target_os = "android")) { 64 } else { 31 };

fn listen_to(wanted: &[process::Signal]) -> io::Result<Vec<(Signal, Stream)>> {
    let ignored = ignored_signals();
    let wanted = wanted.iter().filter(|s| ignored & (1 << (s.as_raw() - 1)) == 0);
    let listen = |s: &process::Signal| {
        let stream = signal(SignalKind::from_raw(s.as_raw())).about(format_args!("signal {}", s.as_raw()))?;
        Ok((Signal(*s), stream))
    };
    wanted.map(listen).collect()
}

/// Returns the signals that this process has inherited as ignored, one bit each, as `nohup` and a shell's `&` do it.
/// The command must find them ignored, too, and does so unless we listen to them. Known on Linux (proc(5)); elsewhere
/// none.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
