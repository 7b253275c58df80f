//! The terms of a run: the longest and the shortest hold, locks around it, and the exit status.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, test_kill_process};

use super::OnServer;
use super::call::{Running, eventually, lock, run};
use super::waits::{connection, hold};

pub(crate) const CASES: &[OnServer] = &[
    ("-E is the status when another client holds the lock", conflict),
    ("--max-hold ends the command in time", max_hold),
    ("--max-hold of less than the grace leaves the command its time", short_max_hold),
    ("--min-hold keeps the lock when the command has ended", min_hold),
    ("a signal does not cut --min-hold short, and the lock is given back", signal_while_lingering),
    ("a hang-up that is told twice does not cut --min-hold short", hung_up_while_lingering),
    ("a signal that ends nothing does not end --min-hold", other_signal_while_lingering),
    ("a signal that comes with the release changes no status", signal_at_release),
    ("a second signal leaves a lock that is kept to its lease", second_signal_while_lingering),
    ("--kill-grace is how long before its death the command is asked to end", kill_grace),
    ("a lock that is held around the command is not waited for", nested),
    ("the URL can come from a file", on_file),
];

fn conflict(server: &Owned) {
    let _holder = hold(server, "conflict", &[]);
    run(server.url(), "conflict", &["--no-wait", "-E", "7"], "true").finish().expect(7, &["not acquired"]);
    run(server.url(), "conflict", &["--wait", "300ms", "--conflict-exit-code", "0"], "exit 9")
        .finish()
        .expect(0, &["not acquired"]);
}

/// The command may use all of --max-hold, and has a third of the ttl after it.
fn max_hold(server: &Owned) {
    let script = "trap 'echo terminated; exit 0' TERM; echo held; sleep 100 & wait";
    let holder = run(server.url(), "max-hold", &["--ttl", "1500ms", "--max-hold", "3s"], script).start();
    assert_eq!(holder.line(), "held");
    let began = Instant::now();
    let (said, lasted, held) = (holder.next_line(), holder.lasts(), began.elapsed());
    let done = holder.finish();
    done.expect(124, &["--max-hold"]);
    assert_in_time!(said.is_some(), "killed before it could say anything: {done:?}");
    assert_eq!(said.as_deref(), Some("terminated"));
    assert!(lasted >= Duration::from_secs(3), "{lasted:?}");
    assert_in_time!(held < Duration::from_millis(3_500), "{held:?}");
    run(server.url(), "max-hold", &["--no-wait"], "true").finish().expect(0, &[]);
    run(server.url(), "max-hold", &["--max-hold", "0s"], "true").finish().expect(64, &["--max-hold"]);
}

/// The grace of 5 s and the lease of 30 s do not shorten --max-hold.
fn short_max_hold(server: &Owned) {
    for (most, longer) in
        [("200ms", "sleep 100"), ("1s", "trap '' INT; sleep 100"), ("1.5s", "sleep 10; exit 0")]
    {
        let done = run(server.url(), "short", &["--max-hold", most], longer).finish();
        done.expect(124, &["--max-hold"]);
        let most = Duration::from_secs_f64(match most {
            "200ms" => 0.2,
            "1s" => 1.0,
            _ => 1.5,
        });
        assert!(done.lasted >= most, "{most:?}: {done:?}");
        assert_in_time!(done.took < most + Duration::from_secs(2), "{most:?}: {done:?}");
    }
    // A command that ends in time keeps its own status.
    run(server.url(), "short", &["--max-hold", "5s"], "sleep 0.3; exit 3").finish().expect(3, &[]);
}

fn min_hold(server: &Owned) {
    const LEAST: Duration = Duration::from_millis(1500);
    let holder = run(server.url(), "min-hold", &["--min-hold", "1500ms"], "echo done").start();
    assert_eq!(holder.line(), "done");
    let other = run(server.url(), "min-hold", &["--no-wait"], "true").finish();
    if other.status != 75 {
        assert_in_time!(holder.lasts() < LEAST, "{other:?} after {:?}", holder.lasts());
    }
    other.expect(75, &[]);
    let done = holder.finish();
    done.expect(0, &[]);
    assert!(done.lasted >= LEAST, "{done:?}");
    run(server.url(), "min-hold", &["--no-wait"], "true").finish().expect(0, &[]);
}

/// Starts a call whose command has ended, and that keeps the lock.
fn lingers(server: &Owned, least: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $PPID >{}; echo done; exit 3", pid.display());
    let holder = run(server.url(), "lingers", &["--min-hold", least, "--ttl", "60s"], &script).start();
    assert_eq!(holder.line(), "done");
    // After the command, its watcher ends and is reaped.
    let watcher = Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap();
    eventually("the command's end is known", || test_kill_process(watcher).is_err());
    holder
}

fn signal_while_lingering(server: &Owned) {
    const LEAST: Duration = Duration::from_secs(6);
    let holder = lingers(server, "6s");
    holder.signal(Signal::TERM);
    assert!(holder.complaint().contains("--min-hold"));
    let other = run(server.url(), "lingers", &["--no-wait"], "true").finish();
    if other.status != 75 {
        assert_in_time!(holder.lasts() < LEAST, "{other:?} after {:?}", holder.lasts());
    }
    other.expect(75, &[]);
    let done = holder.finish();
    assert_eq!(done.status, 143, "{done:?}");
    assert!(done.lasted >= LEAST, "{done:?}");
    assert_in_time!(done.took < LEAST + Duration::from_secs(5), "{done:?}");
    // The lock is free before the ttl of a minute is over.
    run(server.url(), "lingers", &["--no-wait"], "true").finish().expect(0, &[]);
}

/// At the end of a session the signal comes twice: to the shell, which passes it on, and to the processes in the
/// terminal's foreground.
fn hung_up_while_lingering(server: &Owned) {
    const LEAST: Duration = Duration::from_secs(6);
    let holder = lingers(server, "6s");
    holder.signal(Signal::TERM);
    let began = Instant::now();
    assert!(holder.complaint().contains("--min-hold"));
    holder.signal(Signal::HUP);
    let apart = began.elapsed();
    let done = holder.finish();
    if done.status != 143 {
        assert_in_time!(apart < Duration::from_secs(1), "{apart:?}: {done:?}");
    }
    assert_eq!(done.status, 143, "{done:?}");
    assert!(done.lasted >= LEAST, "{done:?}");
    // The lock is free before the ttl of a minute is over.
    run(server.url(), "lingers", &["--no-wait"], "true").finish().expect(0, &[]);
}

fn other_signal_while_lingering(server: &Owned) {
    const LEAST: Duration = Duration::from_secs(2);
    let holder = lingers(server, "2s");
    holder.signal(Signal::USR1);
    holder.signal(Signal::USR2);
    let done = holder.finish();
    assert!(done.lasted >= LEAST, "{done:?}");
    done.expect(3, &[]);
    assert_eq!(done.stderr, "");
    run(server.url(), "lingers", &["--no-wait"], "true").finish().expect(0, &[]);
}

/// The command has ended by itself, and the lock was held until then. The server answers the release a moment later.
fn signal_at_release(server: &Owned) {
    let mut connection = connection(server);
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let script = format!("echo held; until [ -e {} ]; do sleep 0.02; done; exit 3", end.display());
    let releases = |connection: &mut redis::Connection| {
        // This call makes the server know the scripts. With the ttl below, no renewal is sent.
        run(server.url(), "releases", &["--wait", "20s"], "true").finish().expect(0, &[]);
        let holder = run(server.url(), "releases", &["--ttl", "60s"], &script).start();
        assert_eq!(holder.line(), "held");
        redis::cmd("CLIENT").arg("PAUSE").arg(60_000).arg("WRITE").exec(&mut *connection).unwrap();
        std::fs::write(&end, "").unwrap();
        eventually("the release is at the server", || {
            let info: String = redis::cmd("INFO").arg("clients").query(&mut *connection).unwrap();
            info.contains("blocked_clients:1")
        });
        holder.signal(Signal::TERM);
        holder
    };
    let holder = releases(&mut connection);
    let asked = Instant::now();
    // By then the program has got the signal.
    std::thread::sleep(Duration::from_millis(300));
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut connection).unwrap();
    let paused = asked.elapsed();
    let done = holder.finish();
    if done.status != 3 {
        assert_in_time!(paused < Duration::from_secs(1), "{paused:?}: {done:?}");
    }
    done.expect(3, &[]);
    // If the server does not answer, the program does not wait for it.
    std::fs::remove_file(&end).unwrap();
    let done = releases(&mut connection).finish();
    done.expect(74, &["could not be asked"]);
    assert_in_time!(done.took < Duration::from_secs(10), "{done:?}");
}

fn second_signal_while_lingering(server: &Owned) {
    let holder = lingers(server, "60s");
    holder.signal(Signal::TERM);
    assert!(holder.complaint().contains("a second signal"));
    // A signal that comes sooner may be the same one, sent twice.
    std::thread::sleep(Duration::from_millis(1_200));
    holder.signal(Signal::INT);
    let done = holder.finish();
    assert_eq!(done.status, 130, "{done:?}");
    assert_in_time!(done.took < Duration::from_secs(5), "{done:?}");
    run(server.url(), "lingers", &["--no-wait"], "true").finish().expect(75, &[]);
}

/// The command gets SIGTERM when --max-hold is over, and is killed 400 ms later.
fn kill_grace(server: &Owned) {
    let script = "trap 'echo asked; trap \"\" TERM' TERM; echo held; while :; do sleep 0.01; done";
    let holder =
        run(server.url(), "grace", &["--ttl", "3s", "--max-hold", "2s", "--kill-grace", "400ms"], script)
            .start();
    assert_eq!(holder.line(), "held");
    let began = Instant::now();
    let (said, lasted, asked) = (holder.next_line(), holder.lasts(), began.elapsed());
    let done = holder.finish();
    done.expect(124, &[]);
    // The line may come after one of the shell about its `sleep`.
    assert!(done.stderr.contains("--max-hold"), "{done:?}");
    assert_in_time!(said.is_some(), "killed before it could say anything: {done:?}");
    assert!(lasted >= Duration::from_secs(2), "{lasted:?}");
    assert_in_time!(asked < Duration::from_millis(2_350), "{asked:?}");
    // A program that is stopped while it computes the watcher's deadline gets one that is too early.
    assert_in_time!(done.lasted > Duration::from_millis(2_350), "{done:?}");
    assert_in_time!(done.took > Duration::from_millis(200), "{done:?}");
}

fn nested(server: &Owned) {
    let lock = env!("CARGO_BIN_EXE_lock");
    let url = server.url();
    let inner = |name: &str| format!("{lock} run --on {url} --name {name} -- sh -c 'echo \"$LOCK_HELD\"'");
    let done = run(url, "outer", &[], &inner("outer")).finish();
    done.expect(64, &["\"outer\" is held around this command already", "LOCK_HELD"]);
    let done = run(url, "outer", &[], &inner("inner")).finish();
    assert_eq!(done.status, 0, "{done:?}");
    // Each lock is listed by the server's address, and by the server's identity.
    let held: Vec<&str> = done.stdout.lines().collect();
    assert!(held.len() == 4, "{held:?}");
    assert!(held[..2].iter().all(|line| line.ends_with(" outer")), "{held:?}");
    assert!(held[2..].iter().all(|line| line.ends_with(" inner")), "{held:?}");
    // The same server by another address.
    let by_another_name = url.replace("127.0.0.1", "localhost");
    let inner = format!("{lock} run --on {by_another_name} --name outer --wait 20s -- echo ran");
    let done = run(url, "outer", &[], &inner).finish();
    done.expect(64, &["\"outer\" is held around this command already", "LOCK_HELD"]);
    assert_eq!(done.stdout, "", "{done:?}");
    // Another prefix is another lock.
    let prefixed = format!("{lock} run --on '{url}?prefix=p:' --name outer -- echo ran");
    assert_eq!(run(url, "outer", &[], &prefixed).finish().stdout, "ran\n");
}

fn on_file(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    let path = file.to_str().unwrap();
    let call = ["run", "--on-file", path, "--name", "on-file", "--", "echo", "ran"];
    lock(call).finish().expect(64, &[path]);
    std::fs::write(&file, "\n").unwrap();
    lock(call).finish().expect(64, &[path, "empty"]);
    std::fs::write(&file, format!("{}\n# the production server\n", server.url())).unwrap();
    let done = lock(call).env("LOCK_URL", "redis://127.0.0.1:1").finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "ran\n"), "{done:?}");
}
