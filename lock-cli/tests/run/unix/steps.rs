//! `lock acquire` and `lock release`: a lock for a job of several steps.

use std::fs;
use std::time::Instant;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::OnServer;
use super::call::{Call, eventually, lock, run, shell};
use super::waits::{connection, hold, is_told_of_breaks, waits};
use super::watch::SOON;

pub(crate) const CASES: &[OnServer] = &[
    ("a job of several steps holds its lock from acquire to release", several_steps),
    ("the keeper is found by its parent, without its name", by_parent),
    ("two jobs take turns", two_jobs),
    ("a keeper ends with its parent, however that ends", parent_killed),
    ("a keeper ends with the parent that was named", named_parent),
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
    ("a folder for sockets that others can write is refused", open_folder),
    // It reads /proc.
    #[cfg(target_os = "linux")]
    ("a keeper shows no password in ps", secrecy),
];

/// A folder for the sockets of the keepers of one case.
fn runtime_folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Prepares a job, which reads its stdin.
fn job(server: &Owned, folder: &TempDir, script: &str) -> Call {
    shell(script).env("LOCK_URL", server.url()).env("XDG_RUNTIME_DIR", folder.path()).with_stdin()
}

fn is_held(server: &Owned, name: &str) -> bool {
    lock(["status", "--on", server.url(), name]).finish().status == 0
}

fn sockets(folder: &TempDir) -> usize {
    fs::read_dir(folder.path().join("onelock")).map_or(0, Iterator::count)
}

/// Checks that the lock becomes free long before its ttl is over, and that no keeper is left.
#[track_caller]
fn is_freed(server: &Owned, name: &str, folder: &TempDir) {
    let began = Instant::now();
    eventually("the lock is free", || !is_held(server, name));
    eventually("the keeper has ended", || sockets(folder) == 0);
    assert_in_time!(began.elapsed() < SOON, "free after {:?}", began.elapsed());
}

fn several_steps(server: &Owned) {
    // A subshell, and stderr in the answer: neither keeps the call waiting for the keeper.
    let script = "answer=$(\"$LOCK\" acquire --parent $$ steps 2>&1) || exit; eval \"$answer\"
        echo \"$LOCK_TOKEN\"; \"$LOCK\" status steps --json
        \"$LOCK\" release steps; echo \"$?\"; \"$LOCK\" status steps >/dev/null; echo \"$?\"";
    let folder = runtime_folder();
    let done = job(server, &folder, script).finish();
    let lines: Vec<&str> = done.stdout.lines().collect();
    let status: Value = serde_json::from_str(lines[1]).unwrap();
    assert_eq!(lines[0].parse().ok(), status["holder"]["token"].as_u64(), "{done:?}");
    assert!(status["holder"]["label"].as_str().unwrap().ends_with(" acquire"), "{done:?}");
    assert_eq!((&lines[2..], done.stderr.as_str()), (&["0", "1"][..], ""), "{done:?}");
    eventually("the keeper has ended", || sockets(&folder) == 0);
}

fn by_parent(server: &Owned) {
    let script =
        "\"$LOCK\" acquire first >/dev/null && \"$LOCK\" acquire 'the second' >/dev/null && echo both
        \"$LOCK\" release 'the second'; echo \"$?\"; \"$LOCK\" status first >/dev/null; echo \"$?\"
        \"$LOCK\" release first; echo \"$?\"; \"$LOCK\" release first; echo \"$?\"";
    let folder = runtime_folder();
    let done = job(server, &folder, script).finish();
    assert_eq!(done.stdout, "both\n0\n0\n0\n74\n", "{done:?}");
    let hint = "\"first\" is not proven to have been held: no keeper holds it for the process that calls lock release";
    assert!(done.stderr.contains(hint) && done.stderr.contains("LOCK_KEEPER"), "{done:?}");
}

fn two_jobs(server: &Owned) {
    let folder = runtime_folder();
    let script = "\"$LOCK\" acquire two-jobs >/dev/null; echo held; read -r go; \"$LOCK\" release two-jobs";
    let mut first = job(server, &folder, script).start();
    assert_eq!(first.line(), "held");
    let mut second = job(server, &folder, script).start();
    assert!(second.complaint().starts_with("lock: waiting for \"two-jobs\" on redis "));
    first.tell("go");
    first.finish().expect(0, &[]);
    assert_eq!(second.line(), "held");
    second.tell("go");
    second.finish().expect(0, &[]);
}

fn parent_killed(server: &Owned) {
    for signal in [Signal::KILL, Signal::TERM] {
        let folder = runtime_folder();
        let script = "\"$LOCK\" acquire parent-killed >/dev/null; echo held; read -r go";
        let parent = job(server, &folder, script).start();
        assert_eq!(parent.line(), "held");
        assert!(is_held(server, "parent-killed"));
        parent.signal(signal);
        // The keeper has nothing of the job open: `finish` does not wait for it.
        parent.finish();
        is_freed(server, "parent-killed", &folder);
    }
}

fn named_parent(server: &Owned) {
    let folder = runtime_folder();
    let other = shell("read -r go").with_stdin().start();
    let script = format!("\"$LOCK\" acquire --parent {} named-parent", other.id());
    job(server, &folder, &script).finish().expect(0, &[]);
    assert!(is_held(server, "named-parent"));
    other.signal(Signal::KILL);
    other.finish();
    is_freed(server, "named-parent", &folder);
}

fn keeper_killed(server: &Owned) {
    let folder = runtime_folder();
    let script = "\"$LOCK\" acquire --json keeper-killed; read -r go; \"$LOCK\" release keeper-killed";
    let mut parent = job(server, &folder, script).start();
    let answer: Value = serde_json::from_str(&parent.line()).unwrap();
    assert!(answer["event"] == "held" && answer["name"] == "keeper-killed", "{answer}");
    let keeper = Pid::from_raw(answer["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    eventually("the keeper has ended", || test_kill_process(keeper).is_err());
    // Without its keeper, the lock stays held until its ttl is over.
    assert!(is_held(server, "keeper-killed"));
    parent.tell("go");
    parent.finish().expect(74, &["\"keeper-killed\" is not proven to have been held: no keeper"]);
}

fn lost(server: &Owned) {
    let folder = runtime_folder();
    let script = "\"$LOCK\" acquire --ttl 1s steps-lost >/dev/null; echo held; read -r go; \"$LOCK\" release steps-lost";
    let mut parent = job(server, &folder, script).start();
    assert_eq!(parent.line(), "held");
    redis::cmd("DEL").arg("steps-lost").exec(&mut connection(server)).unwrap();
    parent.tell("go");
    parent.finish().expect(74, &["\"steps-lost\" was lost: "]);
}

fn next_job(server: &Owned) {
    let folder = runtime_folder();
    let script =
        "\"$LOCK\" acquire --ttl 1s next-job >/dev/null; echo held; read -r go; \"$LOCK\" release next-job";
    let mut first = job(server, &folder, script).start();
    assert_eq!(first.line(), "held");
    redis::cmd("DEL").arg("next-job").exec(&mut connection(server)).unwrap();
    let mut second = job(server, &folder, script).start();
    assert_eq!(second.line(), "held");
    first.tell("go");
    first.finish().expect(74, &["\"next-job\" was lost: "]);
    assert!(is_held(server, "next-job"), "it is the second job's");
    second.tell("go");
    second.finish().expect(0, &[]);
}

fn broken(server: &Owned) {
    let folder = runtime_folder();
    let script = "\"$LOCK\" acquire --ttl 60s steps-broken >/dev/null; echo held; read -r go; \"$LOCK\" release steps-broken";
    let mut parent = job(server, &folder, script).start();
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
    let folder = runtime_folder();
    let script =
        "\"$LOCK\" acquire twice >/dev/null; \"$LOCK\" acquire twice; echo \"$?\"; \"$LOCK\" release twice";
    let done = job(server, &folder, script).finish();
    assert_eq!(done.stdout, "64\n", "{done:?}");
    done.expect(0, &["\"twice\" is acquired for the process ", " already"]);
}

fn max_hold(server: &Owned) {
    let folder = runtime_folder();
    let script = "\"$LOCK\" acquire --max-hold 300ms steps-max >/dev/null; echo held; read -r go; \"$LOCK\" release steps-max";
    let mut parent = job(server, &folder, script).start();
    assert_eq!(parent.line(), "held");
    eventually("the lock is free", || !is_held(server, "steps-max"));
    parent.tell("go");
    parent.finish().expect(124, &["\"steps-max\" was held for as long as --max-hold allows"]);
}

fn without_parent(server: &Owned) {
    let folder = runtime_folder();
    let acquire = |max: &str| {
        let script = format!("\"$LOCK\" acquire --parent none --max-hold {max} without-parent");
        job(server, &folder, &script).finish()
    };
    let answer = acquire("100s");
    // Another step, of another shell.
    let script = format!("{}\nexport LOCK_KEEPER; \"$LOCK\" release without-parent", answer.stdout);
    assert!(is_held(server, "without-parent"));
    job(server, &folder, &script).finish().expect(0, &[]);
    acquire("500ms").expect(0, &[]);
    is_freed(server, "without-parent", &folder);
    job(server, &folder, "\"$LOCK\" release --parent none without-parent")
        .finish()
        .expect(74, &["no keeper"]);
}

fn not_acquired(server: &Owned) {
    let folder = runtime_folder();
    let holder = hold(server, "steps-held", &["--label", "the first"]);
    let acquire = |flags: &str| job(server, &folder, &format!("exec \"$LOCK\" acquire {flags} steps-held"));
    let done = acquire("--no-wait").finish();
    done.expect(75, &["\"steps-held\" not acquired: held by the first"]);
    assert_eq!(done.stdout, "");
    let done = acquire("--wait 400ms -E 9 --quiet").finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (9, "", ""));
    let waiter = acquire("--quiet").start();
    eventually("the waiter waits", || waits(server, "steps-held"));
    waiter.signal(Signal::INT);
    let done = waiter.finish();
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (130, "", ""));
    holder.signal(Signal::TERM);
    holder.finish();
    assert_eq!(sockets(&folder), 0);
    job(server, &folder, "exec \"$LOCK\" acquire --on redis://127.0.0.1:1 n")
        .finish()
        .expect(69, &["reached"]);
}

fn acquire_killed(server: &Owned) {
    let folder = runtime_folder();
    let holder = hold(server, "acquire-killed", &[]);
    let waiter = job(server, &folder, "exec \"$LOCK\" acquire --quiet acquire-killed").start();
    eventually("the waiter waits", || waits(server, "acquire-killed"));
    waiter.signal(Signal::KILL);
    // Its keeper has the same stderr until the grant: it has ended, too.
    waiter.finish();
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
    run(server.url(), "acquire-killed", &["--no-wait"], "true").finish().expect(0, &[]);
}

fn nothing_open(server: &Owned) {
    let folder = runtime_folder();
    let script = "exec 3>&1 4>&2; \"$LOCK\" acquire --parent none --max-hold 100s nothing-open";
    // Waits for every process that has the job's pipes open.
    let done = job(server, &folder, script).finish();
    done.expect(0, &[]);
    assert_in_time!(done.took < SOON, "{done:?}");
    assert!(is_held(server, "nothing-open"));
    let keeper = done.stdout.lines().find_map(|line| line.strip_prefix("LOCK_KEEPER=")).unwrap();
    let script = format!("\"$LOCK\" release --keeper {keeper} nothing-open");
    job(server, &folder, &script).finish().expect(0, &[]);
}

fn open_folder(server: &Owned) {
    use std::os::unix::fs::PermissionsExt;

    let folder = runtime_folder();
    let sockets = folder.path().join("onelock");
    fs::create_dir(&sockets).unwrap();
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o777)).unwrap();
    let done = job(server, &folder, "exec \"$LOCK\" acquire open-folder").finish();
    done.expect(71, &["the mode 0700"]);
    assert!(!is_held(server, "open-folder"));
}

#[cfg(target_os = "linux")]
fn secrecy(server: &Owned) {
    const SECRET: &str = "s3cr3t";
    let folder = runtime_folder();
    let url = server.url().replace("redis://", &format!("redis://default:{SECRET}@"));
    let file = folder.path().join("url");
    fs::write(&file, url).unwrap();
    let on = format!("--on-file {}", file.display());
    let script = format!("\"$LOCK\" acquire {on} --json secrecy; read -r go; \"$LOCK\" release {on} secrecy");
    let mut parent = job(server, &folder, &script).without("LOCK_URL").start();
    let answer: Value = serde_json::from_str(&parent.line()).unwrap();
    let proc = format!("/proc/{}", answer["pid"]);
    assert_eq!(fs::read_to_string(format!("{proc}/cmdline")).unwrap(), "lock\0__keep\0");
    assert!(!fs::read_to_string(format!("{proc}/environ")).unwrap().contains(SECRET));
    parent.tell("go");
    parent.finish().expect(0, &[]);
}
