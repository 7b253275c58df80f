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
    // Proves: run-signals
    #[cfg(target_os = "linux")]
    ("every signal that can be caught is passed on", every_signal),
    // Proves: run-signals
    #[cfg(target_os = "linux")]
    ("a signal that stops containers ends the wait, and no other that programs ignore", waits),
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

/// Sends a signal that rustix has no name for, too.
#[cfg(target_os = "linux")]
fn kill(process: u32, signal: u8) {
    let status = std::process::Command::new("sh").args(["-c", &format!("kill -{signal} {process}")]).status();
    assert!(status.unwrap().success());
}

#[cfg(target_os = "linux")]
fn every_signal(server: &Owned) {
    // Not those of a process's own faults and writing (SIGQUIT is 3, SIGTRAP 5, SIGBUS 7, …), SIGKILL, SIGCHLD and the stops.
    let by_number = [4, 5, 7, 8, 9, 11, 13, 17, 19, 20, 21, 22, 25, 31];
    let signals: Vec<u8> = (1..=31).chain(34..=64).filter(|signal| !by_number.contains(signal)).collect();
    // Perl knows all signals by their numbers, also those of the C library.
    let script = "use Config; $| = 1; my @names = split / /, $Config{sig_name}; \
        for my $number (@ARGV) { $SIG{$names[$number]} = sub { print qq(got $number\n) } } \
        print qq(ready\n); sleep 100 while 1";
    let numbers: Vec<String> = signals.iter().map(u8::to_string).collect();
    let call =
        ["run", "--on", server.url(), "--name", "every", "--", "perl", "-e", script].map(str::to_owned);
    let holder = lock(call.into_iter().chain(numbers)).start();
    assert_eq!(holder.line(), "ready");
    for signal in signals {
        kill(holder.id(), signal);
        // The command gets SIGCONT, too, behind a signal that asks it to end: it may be stopped.
        let lines =
            std::iter::repeat_with(|| holder.line()).skip_while(|line| signal != 18 && line == "got 18");
        assert_eq!(lines.take(1).collect::<String>(), format!("got {signal}"));
    }
}

#[cfg(target_os = "linux")]
fn waits(server: &Owned) {
    use super::waits::hold;

    let holder = hold(server, "waits", &[]);
    let real_time = 37;
    // Without a terminal, as in a container.
    for signal in [28, real_time] {
        let waiter = run(server.url(), "waits", &["--wait", "60s"], "true").by(["setsid", "--wait"]).start();
        assert!(waiter.complaint().contains("waiting for \"waits\""));
        let children = format!("/proc/{0}/task/{0}/children", waiter.id());
        let inner = std::fs::read_to_string(children).unwrap();
        let inner = inner.trim().parse().unwrap_or_else(|_| waiter.id());
        // SIGURG and SIGCONT, which programs ignore.
        for ignored in [23, 18] {
            kill(inner, ignored);
        }
        assert!(!waiter.has_ended());
        kill(inner, signal);
        waiter.finish().expect(128 + i32::from(signal), &[]);
    }
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
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
