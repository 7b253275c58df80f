//! `lock acquire` and `lock release`: a lock for a job of several steps.

use std::time::Instant;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::OnServer;
use super::call::{Call, Running, eventually, lock, run, shell};
use super::waits::{connection, hold, is_told_of_breaks, waits};
use super::watch::SOON;

pub(crate) const CASES: &[OnServer] = &[
    ("a job of several steps holds its lock from acquire to release", several_steps),
    ("several locks of one job are released one by one", several_locks),
    ("two jobs take turns", two_jobs),
    ("a keeper ends with its parent, however that ends", parent_killed),
    ("a keeper ends with the parent that was named", named_parent),
    ("the end of its parent ends acquire's wait", parent_of_a_waiter),
    ("a stopped acquire keeps no lock beyond its parent", acquire_stopped),
    // It reads /proc.
    #[cfg(target_os = "linux")]
    ("acquire whose keeper is stopped is ended by signals", keeper_stopped),
    ("a keeper that was killed proves nothing", keeper_killed),
    ("a lock that was lost on the way is told by release", lost),
    ("a release never releases what the next job holds", next_job),
    ("a lock that was broken stays reserved until the steps are over", broken),
    ("a second acquire of the same job is refused", twice),
    ("--max-hold ends a hold, and release says so", max_hold),
    ("a keeper without a parent ends with --max-hold", without_parent),
    ("acquire that is not granted ends as a run does", not_acquired),
    ("acquire that is killed while it waits leaves nothing behind", acquire_killed),
    ("a keeper has nothing of the job open", nothing_open),
    ("a shell that is killed beside lock run changes nothing", caller_killed),
];

/// `take NAME`: takes the lock as the guide says.
pub(crate) const TAKE: &str =
    "take() { answer=$(\"$LOCK\" acquire --parent $$ \"$@\") && eval \"$answer\"; }\n";

/// Prepares a job, which reads its stdin.
pub(crate) fn job(server: &Owned, script: &str) -> Call {
    shell(&format!("{TAKE}{script}")).env("LOCK_URL", server.url()).with_stdin()
}

pub(crate) fn is_held(server: &Owned, name: &str) -> bool {
    lock(["status", "--on", server.url(), name]).finish().status == 0
}

/// Starts a job that takes a lock, prints what a program gets, and reads a line before it runs `then`. Returns it with
/// that and its keeper.
pub(crate) fn start(server: &Owned, flags: &str, then: &str) -> (Running, Value, Pid) {
    let script = format!("\"$LOCK\" acquire --json {flags}; read -r go; {then}");
    let running = job(server, &script).start();
    let answer: Value = serde_json::from_str(&running.line()).unwrap();
    let keeper = Pid::from_raw(answer["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    (running, answer, keeper)
}

/// Checks that the lock becomes free long before its ttl is over, and that no keeper is left.
#[track_caller]
pub(crate) fn is_freed(server: &Owned, name: &str, keeper: Pid) {
    let began = Instant::now();
    eventually("the lock is free", || !is_held(server, name));
    eventually("the keeper has ended", || test_kill_process(keeper).is_err());
    assert_in_time!(began.elapsed() < SOON, "free after {:?}", began.elapsed());
}

fn several_steps(server: &Owned) {
    // A subshell, and stderr in the answer: neither keeps the call waiting for the keeper.
    let script = "answer=$(\"$LOCK\" acquire --parent $$ steps 2>&1) || exit; eval \"$answer\"
        echo \"$LOCK_TOKEN\"; \"$LOCK\" status steps --json
        \"$LOCK\" release steps; echo \"$?\"; \"$LOCK\" status steps >/dev/null; echo \"$?\"";
    let done = job(server, script).finish();
    let lines: Vec<&str> = done.stdout.lines().collect();
    let status: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(lines[0].parse().ok(), status["holder"]["token"].as_u64(), "{done:?}");
    assert!(status["holder"]["label"].as_str().unwrap().ends_with(" acquire"), "{done:?}");
    assert_eq!((&lines[2..], done.stderr.as_str()), (&["0", "1"][..], ""), "{done:?}");
}

fn several_locks(server: &Owned) {
    let script = "eval \"$(\"$LOCK\" acquire first)\"; take 'the second'; echo both
        \"$LOCK\" release 'the second'; echo \"$?\"; \"$LOCK\" status first >/dev/null; echo \"$?\"
        \"$LOCK\" release first; echo \"$?\"; \"$LOCK\" release first; echo \"$?\"";
    let done = job(server, script).finish();
    assert_eq!(done.stdout, "both\n0\n0\n0\n74\n", "{done:?}");
    assert!(done.stderr.contains("\"first\" is not proven to have been held: no keeper"), "{done:?}");
    // By a file of the job's, which every later step reads.
    let folder = tempfile::tempdir().unwrap();
    let script = "for name in first second; do
        \"$LOCK\" acquire --parent none --max-hold 100s $name >> \"$FILE\" || exit; done";
    job(server, script).env("FILE", folder.path().join("locks")).finish().expect(0, &[]);
    for name in ["first", "second"] {
        let script = format!(". \"$FILE\"; \"$LOCK\" release {name}");
        job(server, &script).env("FILE", folder.path().join("locks")).finish().expect(0, &[]);
        assert!(!is_held(server, name));
    }
}

fn two_jobs(server: &Owned) {
    let script = "take two-jobs; echo held; read -r go; \"$LOCK\" release two-jobs";
    let mut first = job(server, script).start();
    assert_eq!(first.line(), "held");
    let mut second = job(server, script).start();
    assert!(second.complaint().starts_with("lock: waiting for \"two-jobs\" on redis "));
    first.tell("go");
    first.finish().expect(0, &[]);
    assert_eq!(second.line(), "held");
    second.tell("go");
    second.finish().expect(0, &[]);
}

fn parent_killed(server: &Owned) {
    for signal in [Signal::KILL, Signal::TERM] {
        let (parent, _, keeper) = start(server, "parent-killed", "true");
        assert!(is_held(server, "parent-killed"));
        parent.signal(signal);
        // The keeper has nothing of the job open: `finish` does not wait for it.
        parent.finish();
        is_freed(server, "parent-killed", keeper);
    }
}

fn named_parent(server: &Owned) {
    let other = shell("read -r go").with_stdin().start();
    let (mut starter, _, keeper) = start(server, &format!("--parent {} named-parent", other.id()), "true");
    starter.tell("go");
    starter.finish().expect(0, &[]);
    assert!(is_held(server, "named-parent"));
    other.signal(Signal::KILL);
    other.finish();
    is_freed(server, "named-parent", keeper);
}

fn parent_of_a_waiter(server: &Owned) {
    let holder = hold(server, "waits-for", &[]);
    let mut parent = shell("read -r go").with_stdin().start();
    let script = format!("exec \"$LOCK\" acquire --quiet --parent {} waits-for", parent.id());
    let waiter = job(server, &script).start();
    eventually("the waiter waits", || waits(server, "waits-for"));
    parent.tell("go");
    parent.finish();
    waiter.finish().expect(64, &["\"waits-for\" is not acquired: its parent has ended"]);
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}

fn acquire_stopped(server: &Owned) {
    let holder = hold(server, "acquire-stopped", &[]);
    let mut parent = shell("read -r go").with_stdin().start();
    let script = format!("exec \"$LOCK\" acquire --quiet --parent {} acquire-stopped", parent.id());
    let waiter = job(server, &script).start();
    eventually("the waiter waits", || waits(server, "acquire-stopped"));
    waiter.signal(Signal::STOP);
    let first = keeper_of(server, "acquire-stopped");
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    eventually("the keeper has it", || is_held(server, "acquire-stopped"));
    let keeper = keeper_of(server, "acquire-stopped");
    assert_ne!(keeper, first);
    parent.tell("go");
    parent.finish();
    eventually("the lock is free", || !is_held(server, "acquire-stopped"));
    waiter.signal(Signal::CONT);
    assert_ne!(waiter.finish().status, 0);
}

#[cfg(target_os = "linux")]
fn keeper_stopped(server: &Owned) {
    let holder = hold(server, "keeper-stopped", &[]);
    let waiter = job(server, "exec \"$LOCK\" acquire --quiet keeper-stopped").start();
    eventually("the waiter waits", || waits(server, "keeper-stopped"));
    let id = waiter.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let keeper = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(keeper, Signal::STOP).unwrap();
    waiter.signal(Signal::TERM);
    let done = waiter.finish();
    assert_eq!(done.status, 143, "{done:?}");
    assert!(!waits(server, "keeper-stopped"), "nothing is left behind");
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}

fn keeper_killed(server: &Owned) {
    let script = "take keeper-killed; echo held; read -r go; \"$LOCK\" release keeper-killed";
    let mut parent = job(server, script).start();
    assert_eq!(parent.line(), "held");
    let keeper = keeper_of(server, "keeper-killed");
    kill_process(keeper, Signal::KILL).unwrap();
    eventually("the keeper has ended", || test_kill_process(keeper).is_err());
    // Without its keeper, the lock stays held until its ttl is over.
    assert!(is_held(server, "keeper-killed"));
    parent.tell("go");
    parent.finish().expect(74, &["\"keeper-killed\" is not proven to have been held: no keeper"]);
}

/// Returns the keeper of a lock, by the label that others see.
pub(crate) fn keeper_of(server: &Owned, name: &str) -> Pid {
    let seen = lock(["status", name, "--json", "--on", server.url()]).finish();
    let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
    let label = seen["holder"]["label"].as_str().unwrap();
    let pid = label.split(" pid ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    Pid::from_raw(pid.parse().unwrap()).unwrap()
}

fn lost(server: &Owned) {
    let script = "take --ttl 1s steps-lost; echo held; read -r go; \"$LOCK\" release steps-lost";
    let mut parent = job(server, script).start();
    assert_eq!(parent.line(), "held");
    redis::cmd("DEL").arg("steps-lost").exec(&mut connection(server)).unwrap();
    parent.tell("go");
    parent.finish().expect(74, &["\"steps-lost\" was lost: "]);
}

fn next_job(server: &Owned) {
    let script = "take --ttl 1s next-job; echo held; read -r go; \"$LOCK\" release next-job";
    let mut first = job(server, script).start();
    assert_eq!(first.line(), "held");
    redis::cmd("DEL").arg("next-job").exec(&mut connection(server)).unwrap();
    let mut second = job(server, script).start();
    assert_eq!(second.line(), "held");
    first.tell("go");
    first.finish().expect(74, &["\"next-job\" was lost: "]);
    assert!(is_held(server, "next-job"), "it is the second job's");
    second.tell("go");
    second.finish().expect(0, &[]);
}

fn broken(server: &Owned) {
    let script = "take --ttl 60s steps-broken; echo held; read -r go; \"$LOCK\" release steps-broken";
    let mut parent = job(server, script).start();
    assert_eq!(parent.line(), "held");
    // A release that comes before the keeper knows of the break is in time: the name was reserved until then.
    eventually("the keeper is told of breaks", || is_told_of_breaks(server));
    assert_eq!(lock(["break", "steps-broken", "--yes", "--on", server.url()]).finish().status, 0);
    let next = run(server.url(), "steps-broken", &["--wait", "40s"], "echo next").start();
    eventually("the next one waits", || waits(server, "steps-broken"));
    run(server.url(), "steps-broken", &["--no-wait"], "echo early").finish().expect(75, &[]);
    parent.tell("go");
    parent.finish().expect(74, &["\"steps-broken\" was lost: it was revoked"]);
    assert_eq!(next.line(), "next");
    next.finish().expect(0, &[]);
}

fn twice(server: &Owned) {
    let script = "take twice; unset LOCK_HELD; \"$LOCK\" acquire --no-wait --json twice; echo \"$?\"
        \"$LOCK\" release twice";
    let done = job(server, script).finish();
    assert_eq!(done.stdout, "64\n", "{done:?}");
    done.expect(0, &["\"twice\" is acquired for this job already, by the keeper of $LOCK_HANDLE_twice"]);
}

fn max_hold(server: &Owned) {
    let script = "take --max-hold 300ms steps-max; echo held; read -r go; \"$LOCK\" release steps-max";
    let mut parent = job(server, script).start();
    assert_eq!(parent.line(), "held");
    eventually("the lock is free", || !is_held(server, "steps-max"));
    parent.tell("go");
    parent.finish().expect(124, &["\"steps-max\" was held for as long as --max-hold allows"]);
}

fn without_parent(server: &Owned) {
    let acquire = |max: &str| {
        job(server, &format!("\"$LOCK\" acquire --parent none --max-hold {max} without-parent")).finish()
    };
    let answer = acquire("100s");
    // Another step, of another shell.
    let script = format!("{}\"$LOCK\" release without-parent", answer.stdout);
    assert!(is_held(server, "without-parent"));
    job(server, &script).finish().expect(0, &[]);
    let answer = acquire("500ms");
    is_freed(server, "without-parent", keeper_of(server, "without-parent"));
    let script = format!("{}\"$LOCK\" release without-parent", answer.stdout);
    job(server, &script).finish().expect(74, &["no keeper", "--max-hold"]);
}

fn not_acquired(server: &Owned) {
    let holder = hold(server, "steps-held", &["--label", "the first"]);
    let acquire = |flags: &str| job(server, &format!("exec \"$LOCK\" acquire {flags} steps-held"));
    let done = acquire("--no-wait").finish();
    done.expect(75, &["\"steps-held\" not acquired: held by the first"]);
    assert_eq!(done.stdout, "(exit 75)\n");
    let done = acquire("--wait 400ms -E 9 --quiet").finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (9, "(exit 9)\n", ""));
    acquire("--no-wait -E 0").finish().expect(64, &["-E 0 would let the steps run without the lock"]);
    let waiter = acquire("--quiet").start();
    eventually("the waiter waits", || waits(server, "steps-held"));
    waiter.signal(Signal::INT);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (130, "(exit 130)\n", ""));
    holder.signal(Signal::TERM);
    holder.finish();
    job(server, "exec \"$LOCK\" acquire --on redis://127.0.0.1:1 n").finish().expect(69, &["reached"]);
}

fn acquire_killed(server: &Owned) {
    let holder = hold(server, "acquire-killed", &[]);
    let waiter = job(server, "exec \"$LOCK\" acquire --quiet acquire-killed").start();
    eventually("the waiter waits", || waits(server, "acquire-killed"));
    waiter.signal(Signal::KILL);
    // Its keeper has the same stderr until the grant: it has ended, too.
    waiter.finish();
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    run(server.url(), "acquire-killed", &["--no-wait"], "true").finish().expect(0, &[]);
}

fn nothing_open(server: &Owned) {
    let script = "exec 3>&1 4>&2; \"$LOCK\" acquire --parent none --max-hold 100s nothing-open";
    // Waits for every process that has the job's pipes open.
    let done = job(server, script).finish();
    done.expect(0, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
    assert!(is_held(server, "nothing-open"));
    let keeper = keeper_of(server, "nothing-open");
    #[cfg(target_os = "linux")]
    assert_eq!(
        std::fs::read_link(format!("/proc/{}/cwd", keeper.as_raw_nonzero())).unwrap().to_str(),
        Some("/"),
        "the job's folder can be removed"
    );
    job(server, &format!("{}\"$LOCK\" release nothing-open", done.stdout)).finish().expect(0, &[]);
    is_freed(server, "nothing-open", keeper);
}

fn caller_killed(server: &Owned) {
    let script = "\"$LOCK\" run --name caller-killed -- sh -c 'echo $PPID; exec sleep 100'; true";
    let caller = job(server, script).start();
    let watcher = Pid::from_raw(caller.line().parse().unwrap()).unwrap();
    let program = keeper_of(server, "caller-killed");
    caller.signal(Signal::KILL);
    #[cfg(target_os = "linux")]
    eventually("the caller has ended", || {
        super::secrecy::parent(program.as_raw_nonzero().get().unsigned_abs()) != caller.id()
    });
    assert!(is_held(server, "caller-killed") && test_kill_process(watcher).is_ok());
    kill_process(program, Signal::KILL).unwrap();
    eventually("the watcher has ended", || test_kill_process(watcher).is_err());
    assert!(is_held(server, "caller-killed"), "the lock stays until its ttl is over");
}
