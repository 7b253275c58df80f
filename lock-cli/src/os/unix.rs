//! Unix: the command is the leader of a process group of its own, and that group is what we signal and kill.
//!
//! Between us and the command stands a second call of this program ([`become_command`]), which does in the child what
//! has to be done there, and then becomes the command. So nothing runs between `fork` and `exec` that would need
//! `unsafe`.

use std::ffi::{OsStr, OsString};
use std::io::{self, stdin};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::task::Poll;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid, WaitId, WaitIdOptions, WaitIdStatus};
use rustix::termios;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::Event;
use crate::exit::{Exit, Failure};

/// The first argument of the second call.
const BECOME: &str = "__exec";

/// The command's process group. Its leader is our child, and keeps the group's number from being used again until it
/// is buried.
#[derive(Debug)]
pub(crate) struct Process {
    leader: Child,
    group: Pid,
    /// SIGCHLD.
    children: Stream,
    buried: bool,
}

impl Process {
    /// Starts `command` with `variables` added to the environment.
    pub(crate) fn start(command: &[OsString], variables: &[(&str, String)]) -> Result<Process, Failure> {
        // Before the start, so that no end goes unnoticed.
        let children = signal(SignalKind::child())?;
        let leader = Command::new(own_program()?)
            .arg0("lock")
            .arg(BECOME)
            .arg(std::process::id().to_string())
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .spawn()?;
        let group = Pid::from_child(&leader);
        Ok(Process { leader, group, children, buried: false })
    }

    /// Resolves when the leader has ended or was stopped from the terminal. Cancel safe.
    pub(crate) async fn event(&mut self) -> io::Result<Event> {
        loop {
            // Looked at without being reaped.
            match self.look(WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT)? {
                None => _ = self.children.recv().await,
                Some(state) if !state.stopped() => return Ok(Event::Ended),
                Some(_) => {
                    // Taken note of. It may have been killed since: then the next look tells.
                    self.look(WaitIdOptions::STOPPED).ok();
                    if termios::isatty(stdin()) {
                        stop_as_well(self.group)?;
                        return Ok(Event::Stopped);
                    }
                }
            }
        }
    }

    /// Takes the command out of the stop that [`event`](Self::event) told of.
    pub(crate) fn go_on(&self) {
        hand_terminal_over(process::getpgrp(), self.group);
        self.signal(process::Signal::CONT);
    }

    /// Passes on a signal that we got.
    pub(crate) fn forward(&self, signal: Signal) {
        self.signal(signal.0);
    }

    /// Asks the command to end.
    pub(crate) fn terminate(&self) {
        self.signal(process::Signal::TERM);
    }

    /// Ends the whole group, stopped processes included.
    pub(crate) fn kill(&self) {
        self.signal(process::Signal::KILL);
    }

    /// After [`Event::Ended`]: ends what the command has left in its group, takes the terminal back, and answers how
    /// the command ended.
    pub(crate) fn bury(&mut self) -> io::Result<Exit> {
        self.kill();
        hand_terminal_over(self.group, process::getpgrp());
        self.buried = true;
        self.leader.wait().map(exit)
    }

    fn look(&self, options: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
        Ok(process::waitid(WaitId::Pid(self.group), options | WaitIdOptions::NOHANG)?)
    }

    fn signal(&self, signal: process::Signal) {
        // The group exists, because its leader is not buried. A set-user-ID command that may not be signalled is the
        // one thing that can make this fail; nothing can be done about that.
        let _: rustix::io::Result<()> = process::kill_process_group(self.group, signal);
    }
}

impl Drop for Process {
    /// Whatever went wrong: the command doesn't outlive the lock.
    fn drop(&mut self) {
        if !self.buried {
            let _: io::Result<Exit> = self.bury();
        }
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Status(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

// ---- the second call ------------------------------------------------------------------------------------------------

/// If this is the second call: dies with its parent from now on (on Linux), has the terminal if the parent had it, and
/// becomes the command. Answers why it could not.
///
/// On Linux the command ends with us even if we get SIGKILL. What it has started goes on, and so does a set-user-ID
/// command, for which the kernel forgets the wish (prctl(2), PR_SET_PDEATHSIG).
pub(crate) fn become_command(mut args: impl Iterator<Item = OsString>) -> Option<Failure> {
    if args.next().as_deref() != Some(OsStr::new(BECOME)) {
        return None;
    }
    let parent = args.next().and_then(|pid| pid.to_str()?.parse().ok()).and_then(Pid::from_raw);
    let (Some(parent), Some(program)) = (parent, args.next()) else {
        return Some(Failure::new(Exit::Usage, format!("{BECOME} is for lock itself; see lock run --help")));
    };
    if let Err(e) = die_with(parent) {
        return Some(Failure::from(e));
    }
    if let Ok(group) = process::getpgid(Some(parent)) {
        hand_terminal_over(group, process::getpgrp());
    }
    let error = Command::new(&program).args(args).exec();
    Some(Failure::of_exec(&program, &error))
}

fn die_with(parent: Pid) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    process::set_parent_process_death_signal(Some(process::Signal::KILL))?;
    // It may have died before the wish was known to the kernel.
    match process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the lock that started this has ended")),
    }
}

/// This very program, also if its file has been replaced since: Linux keeps it under this name.
fn own_program() -> io::Result<PathBuf> {
    match cfg!(any(target_os = "linux", target_os = "android")) {
        true => Ok(PathBuf::from("/proc/self/exe")),
        false => std::env::current_exe(),
    }
}

// ---- the terminal ---------------------------------------------------------------------------------------------------

/// Makes `to` the group that reads from the terminal and gets its signals, if stdin is our terminal and `from` has it.
fn hand_terminal_over(from: Pid, to: Pid) {
    if termios::tcgetpgrp(stdin()) != Ok(from) {
        return;
    }
    // A group that doesn't have the terminal is stopped for this, unless it blocks the signal (tcsetpgrp(3)).
    let stops = SigSet::from(NixSignal::SIGTTOU);
    if stops.thread_block().is_err() {
        return;
    }
    // A terminal that went away meanwhile is nobody's.
    let _: rustix::io::Result<()> = termios::tcsetpgrp(stdin(), to);
    // What could be blocked can be unblocked.
    let _: nix::Result<()> = stops.thread_unblock();
}

/// Stops our own group as the terminal would have done had the command been in it, so that the shell gets its prompt.
/// Returns when we are continued; at once where nobody could continue us (an orphaned group), and then the command's
/// stop means nothing either.
fn stop_as_well(command: Pid) -> io::Result<()> {
    hand_terminal_over(command, process::getpgrp());
    Ok(process::kill_current_process_group(process::Signal::TSTP)?)
}

// ---- signals --------------------------------------------------------------------------------------------------------

/// A signal that we got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signal(process::Signal);

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

    /// From now on these signals don't end this process.
    pub(crate) fn listen() -> io::Result<Signals> {
        let ignored = ignored_signals();
        let wanted = Self::PASSED_ON.into_iter().filter(|s| ignored & (1 << (s.as_raw() - 1)) == 0);
        let listen = |s: process::Signal| Ok((Signal(s), signal(SignalKind::from_raw(s.as_raw()))?));
        wanted.map(listen).collect::<io::Result<_>>().map(Signals)
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

/// The signals that whoever started us wants to be ignored, as `nohup` and a shell's `&` do, one bit each: the command
/// must find them ignored too, which it does unless we listen to them. Known on Linux (proc(5)), elsewhere none.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
