//! Signals while the command runs.

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, getpgid};

use super::OnServer;
use super::call::run;
#[cfg(target_os = "linux")]
use super::call::{eventually, lock};
use super::watch::SOON;

pub(crate) const CASES: &[OnServer] = &[
    ("signals are passed on to the command", passed_on),
    ("a command that a passed-on signal ends gives 128 and the signal", ended),
    ("the whole group gets a signal", group),
    #[cfg(target_os = "linux")]
    ("a command that is stopped ends by a signal, too", stopped),
    ("a signal that was ignored from the start stays ignored", ignored),
    ("the end of the command is seen though SIGCHLD was blocked from the start", children_unheard),
    #[cfg(target_os = "linux")]
    ("what the command leaves behind is ended though SIGCHLD was blocked from the start", orphans_unheard),
    #[cfg(target_os = "linux")]
    ("a signal that was blocked from the start stays blocked for the command", blocked),
    ("the command is in a group of its own", own_group),
];

fn passed_on(server: &Owned) {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    let names = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"];
    let traps: String =
        names.iter().map(|name| format!("trap 'n=$((n+1)); echo got {name}' {name}; ")).collect();
    let script = format!("n=0; {traps} echo ready; while [ $n -lt 6 ]; do sleep 0.02; done; exit 9");
    let holder = run(server.url(), "passed-on", &[], &script).start();
    assert_eq!(holder.line(), "ready");
    for (signal, name) in signals.into_iter().zip(names) {
        holder.signal(signal);
        assert_eq!(holder.line(), format!("got {name}"));
    }
    holder.finish().expect(9, &[]);
}

fn ended(server: &Owned) {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::USR2, 140)]
    {
        let holder = run(server.url(), "ended", &["--wait", "10s"], "echo ready; exec sleep 100").start();
        assert_eq!(holder.line(), "ready");
        holder.signal(signal);
        holder.finish().expect(status, &[]);
    }
}

fn group(server: &Owned) {
    let grandchild = "(trap 'echo grandchild; exit' TERM; echo ready; sleep 100 & wait)";
    let script = format!("trap : TERM; {grandchild} & wait; wait; exit 7");
    let holder = run(server.url(), "group", &[], &script).start();
    assert_eq!(holder.line(), "ready");
    holder.signal(Signal::TERM);
    assert_eq!(holder.line(), "grandchild");
    holder.finish().expect(7, &[]);
}

#[cfg(target_os = "linux")]
fn stopped(server: &Owned) {
    let script =
        "trap 'echo terminated; exit 6' TERM; echo $$; kill -s STOP $$; while :; do sleep 0.02; done";
    let holder = run(server.url(), "stopped", &[], script).start();
    let status = format!("/proc/{}/status", holder.line());
    eventually("the command is stopped", || std::fs::read_to_string(&status).unwrap().contains("State:\tT"));
    holder.signal(Signal::TERM);
    assert_eq!(holder.line(), "terminated");
    holder.finish().expect(6, &[]);
}

fn ignored(server: &Owned) {
    let script = "kill -s HUP $$; exit 5";
    run(server.url(), "ignored", &[], script).finish().expect(129, &[]);
    if cfg!(any(target_os = "linux", target_os = "android")) {
        // As with nohup.
        run(server.url(), "ignored", &[], script).ignoring("HUP").finish().expect(5, &[]);
    }
}

/// Starts a program with SIGCHLD blocked, like a program that waits for its children with signalfd(2).
const UNHEARD: [&str; 4] = [
    "perl",
    "-MPOSIX",
    "-e",
    "sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGCHLD)) or die; exec { $ARGV[0] } @ARGV",
];

/// With this ttl the watcher gets an order only every 10 s. Then it would also look at the command.
const SELDOM: [&str; 2] = ["--ttl", "60s"];

fn children_unheard(server: &Owned) {
    let done = run(server.url(), "unheard", &SELDOM, "exit 3").by(UNHEARD).finish();
    done.expect(3, &[]);
    assert_in_time!(done.lasted < SOON, "{done:?}");
}

#[cfg(target_os = "linux")]
fn orphans_unheard(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there").display().to_string();
    let orphan = format!("setsid sh -c '>{there}; exec sleep 100' &");
    let script = format!("{orphan} until [ -e {there} ]; do sleep 0.02; done; exit 4");
    let done = run(server.url(), "orphans-unheard", &SELDOM, &script).by(UNHEARD).finish();
    done.expect(4, &[]);
    assert_in_time!(done.lasted < SOON, "{done:?}");
}

#[cfg(target_os = "linux")]
fn blocked(server: &Owned) {
    // Without a shell: some shells start with no signal blocked.
    let command = ["grep", "^SigBlk", "/proc/self/status"];
    let alone = |starter: &[&str]| {
        let call = [starter, &command].concat();
        let output = std::process::Command::new(call[0]).args(&call[1..]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let under_lock =
        || lock(["run", "--on", server.url(), "--name", "blocked", "--"].into_iter().chain(command));
    let (heard, unheard) = (alone(&["env"]), alone(&UNHEARD));
    assert_ne!(heard, unheard);
    assert_eq!(under_lock().finish().stdout, heard);
    assert_eq!(under_lock().by(UNHEARD).finish().stdout, unheard);
}

fn own_group(server: &Owned) {
    let holder = run(server.url(), "own-group", &[], "echo $$; exec sleep 100").start();
    let command = Pid::from_raw(holder.line().parse().unwrap());
    assert_eq!(getpgid(command).ok(), command);
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}
