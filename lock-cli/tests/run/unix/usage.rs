//! Bad calls, help, and servers that are not there.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use lock_conformance::assert_in_time;
use rustix::process::Signal;

use super::Case;
use super::call::{lock, run};

pub(crate) const CASES: &[Case] = &[
    ("bad usage ends with 64", bad_usage),
    ("without a server the call says how to name one", no_server),
    ("a LOCK_URL without a server in it is an error", missing_secret),
    ("an endless first line is no URL", endless),
    ("locks that only this call would see are refused", memory),
    ("a word that is in the wrong place is told where it goes", hints),
    ("the help of --on names every server", servers_named),
    ("help and version go to stdout", help),
    ("an unreachable server ends with 69 at once", unreachable),
    ("with --wait an unreachable server is tried until then", unreachable_for_a_while),
    ("a signal ends the wait for a server", withdrawn),
    ("too few files to open are an error that says so", few_files),
    ("calls of the program by itself are not for people", inner_calls),
];

/// Cases for a test that root runs: the limit of another user counts no processes but the call's own.
#[cfg(target_os = "linux")]
pub(crate) const BY_ROOT: &[super::WherePossible] =
    &[("too few threads are an error that says so", few_threads)];

fn bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", folder.path().join("locks.db").display());
    let odd = format!("{file}?colour=red");
    for args in [
        &[] as &[&str],
        &["run"],
        &["fly"],
        &["run", "--on", &file, "--", "true"],
        &["run", "--on", &file, "--name", "n"],
        &["run", "--on", &file, "--name", "n", "true"],
        &["run", "--on", &file, "--name", "n", "--fast", "--", "true"],
        &["run", "--on", &file, "--name", "", "--", "true"],
        &["run", "--on", &file, "--name", "n:lock~t", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--ttl", "0s", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--ttl", "10", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--wait", "soon", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--wait", "1s", "--no-wait", "--", "true"],
        &["run", "--on", &odd, "--name", "n", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--max-hold", "0s", "--", "true"],
        &["run", "--on", &file, "--name", "n", "-c", "true", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--quiet", "--verbose", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--quiet", "--json", "--", "true"],
        &["hold", "--on", &file],
        &["hold", "--on", &file, "n", "--max-hold", "0s"],
        &["acquire", "--on", &file, "n", "--max-hold", "0s"],
        &["acquire", "--on", &file, "n", "--parent", "init"],
        &["acquire", "--on", &file, "n", "--parent", "none"],
        &["acquire", "--on", &file, "n", "--parent", "2147483647"],
        &["acquire", "--on", "gopher://host", "n"],
        &["acquire", "--on", &file, "n", "--lease", "1h", "--ttl", "10s"],
        &["release", "--on", &file, "n"],
        &["run", "--on", &file, "--name", "n", "--max-hold", "5s", "--min-hold", "6s", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--once-per", "10ms", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--once-per", "1h", "--at-offset", "1h", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--once-per", "400d", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--once-per", "1h", "--min-hold", "1m", "--", "true"],
        &["run", "--on", &file, "--name", "n", "--at-offset", "1m", "--", "true"],
        &["run", "--on", &file, "--on-file", "/no/such/file", "--name", "n", "--", "true"],
        &["run", "--on", "gopher://host", "--name", "n", "--", "true"],
        &["run", "--on", "localhost", "--name", "n", "--", "true"],
    ] {
        let done = lock(args).finish();
        // What a shell evaluates fails, too.
        let for_eval = if args.first() == Some(&"acquire") { "(exit 64)\n" } else { "" };
        assert_eq!((done.status, done.stdout.as_str()), (64, for_eval), "{args:?}: {done:?}");
        assert!(done.stderr.starts_with("lock: "), "{args:?}: {done:?}");
    }
}

fn no_server() {
    let call = ["run", "--name", "n", "--", "true"];
    let homeless = || lock(call).without("HOME").without("XDG_STATE_HOME");
    homeless().finish().expect(64, &["--on", "$LOCK_URL"]);
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", folder.path().join("locks.db").display());
    homeless().env("LOCK_URL", file).finish().expect(0, &[]);
}

fn missing_secret() {
    let home = tempfile::tempdir().unwrap();
    let at_home = |args: &[&str]| lock(args).env("HOME", home.path()).without("XDG_STATE_HOME");
    let run = ["run", "--name", "n", "--", "echo", "ran"];
    for args in [&run as &[&str], &["status", "n"], &["info"], &["check"], &["schema"], &["init", "--yes"]] {
        for empty in ["", " \n"] {
            let done = at_home(args).env("LOCK_URL", empty).finish();
            done.expect(64, &["$LOCK_URL is set, but empty"]);
            assert_eq!(done.stdout, "", "{args:?}");
        }
    }
    let garbled: &OsStr = OsStr::from_bytes(b"redis://deploy:s3cr3t\xff@h");
    let done = at_home(&run).env("LOCK_URL", garbled).finish();
    done.expect(64, &["$LOCK_URL is not UTF-8"]);
    assert!(!done.stderr.contains("s3cr3t"), "{done:?}");
    // --on takes precedence over LOCK_URL.
    let file = format!("sqlite://{}", home.path().join("locks.db").display());
    let named = ["run", "--on", &file, "--name", "n", "--", "echo", "ran"];
    assert_eq!(at_home(&named).env("LOCK_URL", "").finish().stdout, "ran\n");
    // With --require-server, the user's own file is not used.
    let required = ["run", "--require-server", "--name", "n", "--", "echo", "ran"];
    at_home(&required).finish().expect(64, &["--require-server", "--on", "$LOCK_URL"]);
    assert_eq!(at_home(&required).env("LOCK_URL", file).finish().stdout, "ran\n");
    assert!(
        !home.path().join(".local").exists(),
        "the user's own file was created although it must not be used"
    );
}

fn endless() {
    let call = lock(["check", "--on-file", "/dev/zero"]).after("ulimit -v 2000000");
    call.finish().expect(64, &["the first line of /dev/zero is too long; it must be the server's URL"]);
}

fn memory() {
    for url in ["memory://", "memory://jobs", "memory+queue://", "memory+register://"] {
        for args in [&["run", "--name", "n", "--", "echo", "ran"] as &[&str], &["status", "n"], &["check"]] {
            let done = lock(args).env("LOCK_URL", url).finish();
            done.expect(64, &["one process", "sqlite://"]);
            assert_eq!(done.stdout, "", "{args:?}");
        }
    }
}

fn hints() {
    for (args, hint) in [
        (&["run", "deploy", "--", "true"] as &[&str], "lock run --name deploy -- "),
        (&["run", "--name", "x", "true"], "lock run --name … -- true"),
        (&["run", "make", "all"], "lock run --name NAME -- CMD"),
        (&["run", "--name", "x", "--wait", "30", "--", "true"], "1h30m"),
    ] {
        lock(args).finish().expect(64, &[hint]);
    }
}

fn servers_named() {
    let refusal = lock(["info", "--on", "gopher://h"]).finish().stderr;
    let (_, there_are) = refusal.split_once("there are ").unwrap();
    let (schemes, _) = there_are.split_once(", and variants").unwrap();
    let help = lock(["run", "--help"]).finish().stdout;
    for scheme in schemes.split(", ") {
        assert_eq!(help.contains(scheme), !scheme.starts_with("memory"), "{scheme} in {help}");
    }
}

fn help() {
    for (args, says) in [
        (&["--help"] as &[&str], "Usage: lock <COMMAND>"),
        (&["run", "--help"], "75     not acquired"),
        (&["run", "--help"], "124    --max-hold"),
        (&["--help"], "73 the answer can't be written"),
        (&["run", "-h"], "--no-wait"),
        (&["--version"], concat!("lock ", env!("CARGO_PKG_VERSION"))),
    ] {
        let done = lock(args).finish();
        assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{args:?}: {done:?}");
        assert!(done.stdout.contains(says), "{args:?}: {done:?}");
        assert!(!done.stdout.contains("__exec"), "{args:?}: {done:?}");
    }
}

/// A reserved port on which no server runs.
pub(crate) const NOWHERE: &str = "redis://127.0.0.1:1";

fn unreachable() {
    for flags in [&[] as &[&str], &["--no-wait"]] {
        let done = run(NOWHERE, "n", flags, "echo ran").finish();
        done.expect(69, &["can't be reached"]);
        assert_eq!(done.stdout, "");
        assert_in_time!(done.took < Duration::from_secs(5), "{done:?}");
    }
}

fn unreachable_for_a_while() {
    let (_silent, its_url) = silent();
    for url in [NOWHERE, &its_url] {
        let done = run(url, "n", &["--wait", "800ms"], "echo ran").finish();
        done.expect(69, &["within the wait"]);
        assert_eq!(done.stdout, "");
        // No try begins in the last 250 ms, which are the pause between two tries.
        assert!(done.lasted >= Duration::from_millis(550), "{done:?}");
        assert_in_time!(done.took < Duration::from_secs(5), "{done:?}");
    }
}

/// Returns a server that listens and never answers, and its URL.
fn silent() -> (TcpListener, String) {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    (silent, url)
}

fn withdrawn() {
    let (server, url) = silent();
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let waiter = run(&url, "n", &["--wait", "15s"], "echo ran").start();
        let _asked = server.accept().unwrap();
        waiter.signal(signal);
        let done = waiter.finish();
        assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (status, "", ""));
        assert_in_time!(done.took < Duration::from_secs(2), "{done:?}");
    }
}

fn few_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}", folder.path().join("locks.db").display());
    for limit in 5..20 {
        let call = run(&file, "few-files", &[], "true").after(&format!("ulimit -n {limit}")).finish();
        assert!([0, 64, 69, 71].contains(&call.status), "{limit}: {call:?}");
        assert!(!call.stderr.contains("panicked"), "{limit}: {call:?}");
        // What is refused is named before the reason.
        assert!(!call.stderr.contains("refused: Too many"), "{limit}: {call:?}");
        if limit < 8 {
            call.expect(71, &["lock: the operating system refused: ", "ulimit -n", "Too many open files"]);
        }
    }
}

#[cfg(target_os = "linux")]
fn few_threads() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the test is not run by root".to_owned());
    }
    let limited = |to: &str| {
        // setpriv starts the program with root's right to enter any folder; another program behind it has not got that.
        let other = ["prlimit", to, "setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"];
        // A name has to be looked up.
        run("redis://localhost:1", "few-threads", &[], "true").by(other).finish()
    };
    for to in ["--nproc=1", "--nproc=2"] {
        limited(to)
            .expect(71, &["lock: the operating system refused: ", "ulimit -u", "temporarily unavailable"]);
    }
    limited("--nproc=20").expect(69, &["can't be reached"]);
    Ok(())
}

fn inner_calls() {
    for args in [&["__exec"] as &[&str], &["__exec", "1", "true"], &["__watch"], &["__watch", "1"]] {
        lock(args).finish().expect(64, &["lock run --help"]);
    }
    lock(["__keep"]).finish().expect(64, &["lock acquire --help"]);
    lock(["__exec", "1", "1", "echo", "ran"]).finish().expect(71, &["has ended"]);
    let done = lock(["__watch", "kill-daemons", "1", "echo", "ran"]).finish();
    done.expect(71, &["refused"]);
    assert_eq!(done.stdout, "");
}
