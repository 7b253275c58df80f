//! Secrets that other users must not see: a server's password, and the arguments of a command.

use lock_test_servers::Owned;
use rustix::process::Signal;
use serde_json::Value;

use super::call::{lock, run};
use super::steps::start;
use super::usage::NOWHERE;
use super::{Case, OnServer};

pub(crate) const CASES: &[Case] = &[("a password is not shown", complaints)];

pub(crate) const ON_SERVER: &[OnServer] = &[
    // It reads /proc.
    #[cfg(target_os = "linux")]
    ("a password shows neither in ps nor in the command's environment", processes),
    // It reads /proc.
    #[cfg(target_os = "linux")]
    ("neither login nor owner nor handle shows in names and processes of a keeper", keeper),
    ("others are shown the holder's command without its arguments", labels),
];

const SECRET: &str = "s3cr3t";

fn with_password(url: &str) -> String {
    url.replace("redis://", &format!("redis://default:{SECRET}@"))
}

/// The URL is in several places on the command line, with several mistakes.
fn complaints() {
    let url = with_password(NOWHERE);
    for url in [&url, &url.replace("redis", "gopher"), &format!("{url}?colour=red")] {
        for flags in [&["--no-wait"] as &[&str], &["--wait", "300ms"]] {
            let done = run(url, "n", flags, "true").finish();
            assert!([64, 69].contains(&done.status) && !done.stderr.contains(SECRET), "{url}: {done:?}");
        }
    }
    let unknown = format!("--onn={url}");
    for args in [
        &["check", &url] as &[&str],
        &["fly", &url],
        &["run", &url, "--", "true"],
        &["run", "--name", "n", "--wait", &url, "--", "true"],
        &["run", "--name", "n", &unknown, "--", "true"],
    ] {
        let done = lock(args).finish();
        done.expect(64, &[]);
        assert!(!done.stderr.contains(SECRET), "{args:?}: {done:?}");
    }
}

#[cfg(target_os = "linux")]
fn processes(server: &Owned) {
    let url = with_password(server.url());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, &url).unwrap();
    let by_file = ["--on-file", file.to_str().unwrap()];
    let call = |on: &[&str]| {
        let start = ["run", "--name", "secret", "--verbose"].iter().chain(on).copied();
        lock(start.chain(["--", "sh", "-c", "echo $$; sleep 100; exit 1"]))
    };
    // With LOCK_URL, the environment has the password already, and the command inherits it.
    let calls =
        [(call(&by_file), &["cmdline", "environ"] as &[_]), (call(&[]).env("LOCK_URL", &url), &["cmdline"])];
    for (call, seen_by_others) in calls {
        let holder = call.start();
        // Looks at the command, its watcher, and the program.
        let mut process: u32 = holder.line().parse().unwrap();
        let mut looked_at = 1;
        loop {
            for what in seen_by_others {
                let seen = std::fs::read(format!("/proc/{process}/{what}")).unwrap();
                let seen = String::from_utf8_lossy(&seen);
                assert!(!seen.is_empty(), "{what} of the process {looked_at}");
                // Shows only the word with the password: the machine may have other secrets there.
                let told = seen.split('\0').find(|word| word.contains(SECRET));
                assert_eq!(told, None, "{what} of the process {looked_at}");
            }
            if process == holder.id() {
                break;
            }
            (process, looked_at) = (parent(process), looked_at + 1);
        }
        assert_eq!(looked_at, 3);
        for look in ["status", "info", "check"] {
            let name = ["secret"].into_iter().filter(|_| look == "status");
            let done = lock([look].into_iter().chain(name).chain(by_file)).finish();
            done.expect(0, &[]);
            assert!(!done.stdout.is_empty() && !format!("{done:?}").contains(SECRET), "{done:?}");
        }
        holder.signal(Signal::TERM);
        let done = holder.finish();
        done.expect(143, &["acquired"]);
        assert!(!done.stderr.contains(SECRET), "{done:?}");
    }
}

#[cfg(target_os = "linux")]
fn keeper(server: &Owned) {
    use std::fs::read_to_string;

    let url = with_password(server.url());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, &url).unwrap();
    let mut sockets = Vec::new();
    for _ in 0..2 {
        let flags = format!("--on-file {} kept-secret", file.display());
        let release = "eval \"$exports\"; exec \"$LOCK\" release kept-secret";
        let (mut job, answer, keeper) = start(server, &flags, &format!("read -r exports; {release}"));
        let status = lock(["status", "kept-secret", "--json", "--on", server.url()]).finish();
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        let owner = status["holder"]["owner"].as_str().unwrap().to_owned();
        let variables = answer["environment"].as_object().unwrap();
        let handle = variables["LOCK_HANDLE_kept_2dsecret"].as_str().unwrap();
        let secrets: Vec<&str> = handle.split('.').skip(2).collect();
        assert!(secrets.len() == 2 && secrets.iter().all(|secret| secret.len() == 32), "{handle}");
        // What the steps get has no login, and does not name the owner.
        let answer = answer.to_string();
        assert!(!answer.contains(SECRET) && !answer.contains(&owner), "{answer}");
        // What every user sees has neither these nor what proves the hold.
        let keeper = keeper.as_raw_nonzero();
        let seen = [
            read_to_string("/proc/net/unix").unwrap(),
            read_to_string(format!("/proc/{keeper}/cmdline")).unwrap(),
            read_to_string(format!("/proc/{keeper}/comm")).unwrap(),
        ];
        let environment = read_to_string(format!("/proc/{keeper}/environ")).unwrap();
        for secret in [SECRET, &owner].into_iter().chain(secrets) {
            assert!(!seen.iter().any(|seen| seen.contains(secret)), "{secret} in {seen:?}");
            assert!(!environment.split('\0').any(|variable| variable.contains(secret)), "{secret}");
        }
        assert_eq!(seen[1], "lock\0__keep\0");
        let ours: Vec<&str> = seen[0].lines().filter_map(|line| line.split("@onelock-").nth(1)).collect();
        sockets.push(ours.iter().find(|name| handle.contains(**name)).expect("its socket").to_string());
        job.tell("go");
        job.tell(&format!("export LOCK_HANDLE_kept_2dsecret={handle}"));
        job.finish().expect(0, &[]);
    }
    // Not made of the URL, the name or the parent: nothing can be guessed from it.
    assert_ne!(sockets[0], sockets[1]);
}

/// Reads the parent's number from proc_pid_status(5).
#[cfg(target_os = "linux")]
pub(crate) fn parent(process: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

fn labels(server: &Owned) {
    let holder = run(server.url(), "labels", &[], &format!("echo held; exec sleep 100 # {SECRET}")).start();
    assert_eq!(holder.line(), "held");
    let seen = lock(["status", "labels", "--json", "--on", server.url()]).finish();
    let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
    let label = seen["holder"]["label"].as_str().unwrap();
    assert!(label.ends_with(&format!(" pid {} sh", holder.id())), "{label}");
    holder.signal(Signal::TERM);
    holder.finish().expect(143, &[]);
}
