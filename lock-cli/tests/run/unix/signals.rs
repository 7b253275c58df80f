//! Signals while the command runs.

use lock_conformance::servers::Owned;
use rustix::process::Signal;

use super::OnServer;
use super::call::run;

pub(crate) const CASES: &[OnServer] = &[
    ("signals are passed on to the command", passed_on),
    ("a command that a passed-on signal ends gives 128 and the signal", ended),
    ("the whole group gets a signal", group),
    ("a signal that was ignored from the start stays ignored", ignored),
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

fn ignored(server: &Owned) {
    let script = "kill -s HUP $$; exit 5";
    run(server.url(), "ignored", &[], script).finish().expect(129, &[]);
    if cfg!(any(target_os = "linux", target_os = "android")) {
        // As nohup does.
        run(server.url(), "ignored", &[], script).ignoring("HUP").finish().expect(5, &[]);
    }
}

fn own_group(server: &Owned) {
    let holder = run(server.url(), "own-group", &[], "ps -o pgid= -p $$; echo $$").finish();
    holder.expect(0, &[]);
    let ids: Vec<&str> = holder.stdout.split_whitespace().collect();
    assert_eq!(ids[0], ids[1], "{holder:?}");
}
