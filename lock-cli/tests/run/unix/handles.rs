//! The handle of `lock acquire` is what proves that a lock is a job's: without it nothing is released, and with it the
//! lock is released from wherever it was handed on to.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_test_servers::{Absence, Etcd, Owned, Settings};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::call::{LIMIT, eventually, lock, run, shell};
use super::steps::{is_freed, is_held, job, keeper_of, start};
use super::usage::NOWHERE;
use super::watch::SOON;
use super::{OnServer, WherePossible};

pub(crate) const CASES: &[OnServer] = &[
    ("without its handle a lock is not released", no_handle),
    ("a handle releases its own lock alone", other_handle),
    ("however the server is written, the handle releases", other_urls),
    ("a lock that the job holds is refused to its steps", second),
    ("a LOCK_HELD that is over refuses nothing", stale),
    ("a job that takes many locks can start commands", many),
    ("a stopped keeper is named, and not waited for without end", stopped),
    ("callers that say nothing keep a keeper from nothing", silent),
    ("another process at a keeper's socket proves nothing", impostor),
    ("a lease is released by its handle, from another process", lease),
    ("a lease that has ended is told by release", lease_over),
    ("a failure of acquire is one for eval, too", evaluated),
    ("acquire needs no folder", no_folder),
    ("a URL is read from a pipe, and from one that stays open", piped),
    ("signals end a call that waits for its URL", piped_late),
];

pub(crate) const ON_ETCD: &[WherePossible] =
    &[("a lease is refused where locks end with a connection", sessions)];

const HANDLE: &str = "LOCK_HANDLE_handle";

/// Starts a job that takes "handle", prints its handle, and releases it after a line on its stdin.
fn started(server: &Owned) -> (super::call::Running, String, Pid) {
    let script = format!("take handle; echo \"${HANDLE}\"; read -r go; exec \"$LOCK\" release handle");
    let running = job(server, &script).start();
    let handle = running.line();
    let keeper = keeper_of(server, "handle");
    (running, handle, keeper)
}

fn no_handle(server: &Owned) {
    let (mut holder, handle, _) = started(server);
    let release = || job(server, "exec \"$LOCK\" release handle");
    let done = release().finish();
    done.expect(64, &["nothing shows that \"handle\" is this job's", "$LOCK_HANDLE_handle", "lock acquire"]);
    release().env(HANDLE, "").finish().expect(64, &["$LOCK_HANDLE_handle"]);
    // A part of it, as of a line that was cut off.
    let cut = &handle[..handle.len() - 2];
    let done = release().env(HANDLE, cut).finish();
    done.expect(64, &["$LOCK_HANDLE_handle is no handle"]);
    assert!(!done.stderr.contains(&handle[7..23]), "{done:?}");
    assert!(is_held(server, "handle"));
    holder.tell("go");
    holder.finish().expect(0, &[]);
}

fn other_handle(server: &Owned) {
    let (mut holder, handle, _) = started(server);
    let (mut other, answer, keeper) = start(server, "other", "true");
    let of_other = answer["environment"]["LOCK_HANDLE_other"].as_str().unwrap();
    let release = |handle: &str| job(server, "exec \"$LOCK\" release handle").env(HANDLE, handle).finish();
    release(of_other).expect(64, &["the handle is that of \"other\""]);
    // The right socket, and another secret.
    let (socket, secrets) = handle.split_at(23);
    let turned: String = secrets
        .chars()
        .map(|c| {
            if c == '0' {
                '1'
            } else if c == '.' {
                c
            } else {
                '0'
            }
        })
        .collect();
    release(&format!("{socket}{turned}")).expect(74, &["\"handle\" is not proven to have been held"]);
    assert!(is_held(server, "handle") && is_held(server, "other"));
    holder.tell("go");
    holder.finish().expect(0, &[]);
    other.tell("go");
    other.finish();
    is_freed(server, "other", keeper);
}

fn other_urls(server: &Owned) {
    let by_name = server.url().replace("127.0.0.1", "localhost");
    for url in [by_name.clone(), format!("{by_name}/0"), format!("{}\n", server.url()), NOWHERE.to_owned()] {
        let (running, handle, keeper) = started(server);
        let release = job(server, "exec \"$LOCK\" release handle").env(HANDLE, &handle).env("LOCK_URL", &url);
        release.finish().expect(0, &[]);
        is_freed(server, "handle", keeper);
        drop(running);
    }
}

fn second(server: &Owned) {
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let script = format!(
        "take second; tried() {{ \"$LOCK\" \"$@\" </dev/null >/dev/null; echo $?; }}
        tried run --name second -- true; tried run --on {by_name} --name second -- true
        tried acquire --json second; tried acquire --json --lease 1h second
        mkfifo pipe; exec 3<>pipe; \"$LOCK\" hold second <pipe >/dev/null; echo $?
        handle=$LOCK_HANDLE_second; unset LOCK_HANDLE_second; tried acquire --json second
        export LOCK_HANDLE_second=$handle; \"$LOCK\" release second; \"$LOCK\" run --name second -- echo ran"
    );
    let folder = tempfile::tempdir().unwrap();
    let done = job(server, &script).within(folder.path()).finish();
    assert_eq!(done.stdout.lines().collect::<Vec<_>>().join(" "), "64 64 64 64 64 64 ran", "{done:?}");
    done.expect(0, &["\"second\" is held around this command already", "LOCK_HELD"]);
}

fn stale(server: &Owned) {
    let held = run(server.url(), "stale", &[], "printf '%s' \"$LOCK_HELD\"").finish().stdout;
    let call = |flags: &[&str]| run(server.url(), "stale", flags, "echo ran").env("LOCK_HELD", &held);
    assert_eq!(call(&[]).finish().stdout, "ran\n", "it is free");
    let holder = run(server.url(), "stale", &[], "echo held; exec sleep 100").start();
    assert_eq!(holder.line(), "held");
    call(&["--no-wait"]).finish().expect(75, &["\"stale\" not acquired"]);
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}

/// As at the end of a job that has taken a thousand locks, one after the other.
fn many(server: &Owned) {
    // The system lets no variable become longer (execve(2), MAX_ARG_STRLEN).
    const MOST: usize = (128 << 10) - "LOCK_HELD=".len() - 1;
    let earlier = format!("7 redis {} item-{:060}\n", server.url(), 0);
    let mut around = earlier.repeat(MOST / earlier.len());
    around.pop();
    let script = "take many; \"$LOCK\" run --name many -- true; echo $?; \"$LOCK\" release many; echo $?";
    let done = job(server, script).env("LOCK_HELD", around).finish();
    assert_eq!(done.stdout, "64\n0\n", "{done:?}");
    done.expect(0, &["\"many\" is held around this command already"]);
}

fn stopped(server: &Owned) {
    let (mut holder, handle, keeper) = started(server);
    kill_process(keeper, Signal::STOP).unwrap();
    let done = job(server, "exec \"$LOCK\" release handle").env(HANDLE, &handle).finish();
    let pid = format!("pid {},", keeper.as_raw_nonzero());
    done.expect(74, &["\"handle\" is not proven to have been held", &pid, "kill -CONT"]);
    assert_in_time!(done.lasted < LIMIT / 2, "{done:?}");
    kill_process(keeper, Signal::CONT).unwrap();
    // It has heard the first call, which has gone, and does what that has asked for.
    is_freed(server, "handle", keeper);
    holder.tell("go");
    holder.finish().expect(74, &["no keeper"]);
}

/// The address of the socket in a handle.
fn address(handle: &str) -> SocketAddr {
    let socket = handle.split('.').nth(1).unwrap();
    SocketAddr::from_abstract_name(format!("onelock-{socket}")).unwrap()
}

fn silent(server: &Owned) {
    // More than are heard at a time.
    for (silent, ends_by) in [(10, "release"), (80, "the end of its parent")] {
        let (mut holder, handle, keeper) = started(server);
        let address = address(&handle);
        let callers: Vec<UnixStream> =
            (0..silent).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
        let began = Instant::now();
        if ends_by == "release" {
            holder.tell("go");
            holder.finish().expect(0, &[]);
        } else {
            holder.signal(Signal::KILL);
            holder.finish();
        }
        is_freed(server, "handle", keeper);
        assert_in_time!(began.elapsed() < SOON, "{ends_by}: {:?}", began.elapsed());
        drop(callers);
    }
}

fn impostor(server: &Owned) {
    let (mut holder, handle, keeper) = started(server);
    kill_process(keeper, Signal::KILL).unwrap();
    eventually("the keeper has ended", || test_kill_process(keeper).is_err());
    let listener = UnixListener::bind_addr(&address(&handle)).unwrap();
    let impostor = thread::spawn(move || {
        let mut caller = listener.accept().unwrap().0;
        let mut asked = String::new();
        BufReader::new(caller.try_clone().unwrap()).read_line(&mut asked).unwrap();
        // It knows what it was asked, and no more.
        let question: Value = serde_json::from_str(&asked).unwrap();
        let proof = question["question"].as_str().unwrap();
        writeln!(caller, "{{\"proof\":\"{proof}\",\"within_ms\":0}}\n{{\"status\":0}}").unwrap();
    });
    holder.tell("go");
    holder.finish().expect(74, &["\"handle\" is not proven to have been held", "not its keeper"]);
    impostor.join().unwrap();
}

fn lease(server: &Owned) {
    let done = job(server, "exec \"$LOCK\" acquire --lease 1h leased").finish();
    done.expect(0, &[]);
    let shown = lock(["status", "leased", "--json", "--on", server.url()]).finish();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let left = shown["holder"]["expires_in_ms"].as_u64().unwrap();
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    // The process in its label has ended: no process holds it.
    let process = keeper_of(server, "leased");
    eventually("acquire has ended", || test_kill_process(process).is_err());
    run(server.url(), "leased", &["--no-wait"], "true").finish().expect(75, &[]);
    // Without the handle, or with another one, it stays.
    job(server, "exec \"$LOCK\" release leased").finish().expect(64, &["$LOCK_HANDLE_leased"]);
    let other = job(server, "exec \"$LOCK\" acquire --lease 1h others").finish().stdout;
    let wrong = format!(
        "{other}LOCK_HANDLE_leased=$LOCK_HANDLE_others; export LOCK_HANDLE_leased; \"$LOCK\" release leased"
    );
    job(server, &wrong).finish().expect(74, &["\"leased\" is not held by this handle any more"]);
    assert!(is_held(server, "leased"));
    // Its own step is refused.
    let script = format!(
        "{}\"$LOCK\" run --name leased -- true; echo \"$?\"; \"$LOCK\" release leased; echo \"$?\"
        \"$LOCK\" release leased; echo \"$?\"",
        done.stdout
    );
    let waiter = run(server.url(), "leased", &["--wait", "20s"], "echo next").start();
    eventually("the next one waits", || super::waits::waits(server, "leased"));
    let steps = job(server, &script).finish();
    assert_eq!(steps.stdout, "64\n0\n74\n", "{steps:?}");
    assert_eq!(waiter.line(), "next", "it is woken");
    waiter.finish().expect(0, &[]);
    job(server, "exec \"$LOCK\" acquire --lease 1h --max-hold 1m leased").finish().expect(64, &[]);
    job(server, "exec \"$LOCK\" acquire --lease 9000d leased").finish().expect(64, &["ttl"]);
    assert!(!is_held(server, "leased"));
}

fn lease_over(server: &Owned) {
    let script =
        "eval \"$(\"$LOCK\" acquire --lease 1s over)\"; echo held; read -r go; exec \"$LOCK\" release over";
    let mut holder = job(server, script).start();
    assert_eq!(holder.line(), "held");
    eventually("its lease has ended", || !is_held(server, "over"));
    holder.tell("go");
    holder.finish().expect(74, &["\"over\" is not held by this handle any more"]);
}

fn evaluated(server: &Owned) {
    let holder = super::waits::hold(server, "evaluated", &[]);
    let down = format!("--on {NOWHERE} evaluated");
    for (call, status) in [
        (down.as_str(), 69),
        ("--lease 1h --on redis://127.0.0.1:1 evaluated", 69),
        ("--no-wait evaluated", 75),
        ("--no-wait -E 9 --quiet evaluated", 9),
        ("--no-wait --lease 1h evaluated", 75),
        ("--bad evaluated", 64),
        ("--on gopher://host evaluated", 64),
        ("''", 64),
        ("", 64),
    ] {
        let script = format!("eval \"$(\"$LOCK\" acquire {call})\" || exit; echo ran without the lock");
        let done = job(server, &script).finish();
        assert_eq!((done.status, done.stdout.as_str()), (status, ""), "{call}: {done:?}");
        // A program that reads objects gets none.
        let done = job(server, &format!("exec \"$LOCK\" acquire --json {call}")).finish();
        assert_eq!((done.status, done.stdout.as_str()), (status, ""), "{call}: {done:?}");
    }
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}

fn no_folder(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("x".repeat(200));
    std::fs::create_dir(&long).unwrap();
    for (variable, value) in
        [("TMPDIR", long.clone()), ("TMPDIR", "/no/such/folder".into()), ("XDG_RUNTIME_DIR", long.clone())]
    {
        let script = "take no-folder; \"$LOCK\" release no-folder";
        job(server, script).env(variable, &value).finish().expect(0, &[]);
    }
    assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0, "another user's folder stays as it was");
}

fn piped(server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    // A named pipe is open for as long as the shell is.
    let script =
        "mkfifo pipe; exec 3<>pipe; echo \"$URL\" >&3; \"$LOCK\" run --on-file pipe --name piped -- echo ran
        echo \"$URL\" >&3; take --on-file pipe piped; \"$LOCK\" release piped; echo $?
        answer=$(echo \"$URL\" | \"$LOCK\" acquire --parent $$ --on-file /dev/stdin piped); eval \"$answer\"
        \"$LOCK\" release piped; echo $?";
    let done =
        job(server, script).without("LOCK_URL").env("URL", server.url()).within(folder.path()).finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "ran\n0\n0\n"), "{done:?}");
}

fn piped_late(_server: &Owned) {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for call in [
        &["run", "--name", "n", "--on-file"] as &[&str],
        &["hold", "n", "--on-file"],
        &["acquire", "n", "--on-file"],
        &["acquire", "n", "--lease", "1h", "--on-file"],
        &["watch", "n", "--on-file"],
        &["status", "n", "--on-file"],
    ] {
        let command: &[&str] = if call[0] == "run" { &["--", "true"] } else { &[] };
        let args = [call, &[pipe.to_str().unwrap()], command].concat();
        let waits = lock(args).with_stdin().start();
        let mut writer = None;
        eventually("it opens the pipe", || {
            writer = open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok();
            writer.is_some()
        });
        waits.signal(Signal::TERM);
        assert_eq!(waits.finish().status, -15, "{call:?}");
    }
}

fn sessions() -> Result<(), String> {
    let server = Owned::start(&Etcd, &Settings::default()).map_err(Absence::reason)?;
    let done = shell("exec \"$LOCK\" acquire --lease 1h n").env("LOCK_URL", server.url()).finish();
    done.expect(64, &["etcd can't keep a lock for --lease", "a keeper holds it"]);
    assert!(!is_held(&server, "n"));
    assert!(done.lasted < Duration::from_secs(10), "{done:?}");
    Ok(())
}
