//! In a PID namespace of its own: the program is the first process there, its process group is outside, and /proc may
//! belong to the outer namespace.

use std::process::Command;

use lock_conformance::assert_in_time;
use lock_test_servers::Owned;

use super::WhereAllowed;
use super::call::{Call, run};
use super::daemons::DAEMON;
use super::steps::{is_held, job};
use super::waits::connection;
use super::watch::{LEAVES, SOON};

pub(crate) const CASES: &[WhereAllowed] = &[
    ("the first process of a namespace runs its command", runs),
    ("the first process of a namespace passes signals on", signalled),
    ("the first process of a namespace ends daemons of the command", daemons),
    ("the first process of a namespace ends a command that has left its group", elsewhere),
    ("a job in another namespace releases no lock that is not its own", jobs),
    ("a watcher that is killed in an inner namespace takes no group of the outer one with it", inner_numbers),
];

/// Ways to make namespaces: with the caller's own rights, or with those that a user namespace gives. /proc belongs to
/// the outer namespace, or to the new one. All processes there end with the program that made the namespace.
const OUTER: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child"],
    &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"],
];
const OWN: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"],
    &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"],
];

/// Runs `case` where /proc belongs to the outer namespace, and where it belongs to the new one. The error says which of
/// these this machine does not allow.
fn each_namespace(case: impl Fn(&[&str])) -> Result<(), String> {
    let tried = [&OUTER, &OWN].map(|ways| in_namespace(ways, &case));
    tried.into_iter().collect()
}

fn in_namespace(ways: &[&[&str]], case: impl Fn(&[&str])) -> Result<(), String> {
    let works = |way: &&&[&str]| {
        let tried = Command::new(way[0]).args(&way[1..]).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let way = ways.iter().find(works);
    way.map(|way| case(way)).ok_or_else(|| format!("this machine doesn't allow {}", ways[0].join(" ")))
}

fn within(way: &[&str], call: Call) -> Call {
    call.by(way.iter().copied())
}

fn runs(server: &Owned) -> Result<(), String> {
    each_namespace(|way| {
        let done = within(way, run(server.url(), "first", &[], "echo $PPID; exit 7")).finish();
        assert_eq!(done.status, 7, "{way:?}: {done:?}");
        assert!(
            done.stderr.is_empty() && done.stdout.trim().parse::<u32>().unwrap() > 1,
            "{way:?}: {done:?}"
        );
    })
}

fn signalled(server: &Owned) -> Result<(), String> {
    each_namespace(|way| {
        // Sends SIGTERM to process 1, which is lock in this namespace.
        let script = "trap 'echo terminated; exit 3' TERM; echo held; kill -s TERM 1; sleep 100 & wait";
        let done = within(way, run(server.url(), "first-signalled", &[], script)).finish();
        assert_eq!((done.status, done.stdout.as_str()), (3, "held\nterminated\n"), "{way:?}: {done:?}");
    })
}

fn daemons(server: &Owned) -> Result<(), String> {
    each_namespace(|way| {
        let done = within(way, run(server.url(), "first-daemons", &[], &format!("{DAEMON} exit 4"))).finish();
        assert_eq!(done.status, 4, "{way:?}: {done:?}");
        assert_in_time!(done.took < SOON, "{way:?}: {done:?}");
    })
}

fn elsewhere(server: &Owned) -> Result<(), String> {
    each_namespace(|way| {
        let call = run(server.url(), "first-elsewhere", &["--ttl", "2s"], LEAVES);
        let holder = within(way, call).start();
        assert_eq!(holder.line(), "held");
        redis::cmd("DEL").arg("first-elsewhere").exec(&mut connection(server)).unwrap();
        let done = holder.finish();
        done.expect(74, &["\"first-elsewhere\" was lost", "killed"]);
        assert_in_time!(done.took < SOON, "{way:?}: {done:?}");
    })
}

/// Both jobs are the first process of their namespaces, as those of two containers are.
fn jobs(server: &Owned) -> Result<(), String> {
    each_namespace(|way| {
        let holds =
            "eval \"$(\"$LOCK\" acquire jobs)\"; echo held; read -r go; \"$LOCK\" release jobs; echo $?";
        let mut holder = within(way, job(server, holds)).with_stdin().start();
        assert_eq!(holder.line(), "held");
        let other =
            within(way, job(server, "\"$LOCK\" release jobs; echo $?; \"$LOCK\" acquire --no-wait jobs"));
        let done = other.finish();
        assert_eq!((done.status, done.stdout.as_str()), (75, "64\n(exit 75)\n"), "{way:?}: {done:?}");
        assert!(is_held(server, "jobs"), "{way:?}");
        holder.tell("go");
        let done = holder.finish();
        assert_eq!(done.stdout, "0\n", "{way:?}: {done:?}");
    })
}

/// After `unshare --pid` alone, the program is in the outer namespace, and its watcher is the first process of the
/// inner one. The number of the command's group is 2 there. A process of the outer namespace has a group with the same
/// number.
fn inner_numbers(server: &Owned) -> Result<(), String> {
    const SCRIPT: &str = "setsid sleep 100 & victim=$!; [ $victim = 2 ] || exit 5; \
         unshare --pid \"$0\" \"$@\" & holder=$!; until [ -s $THERE ]; do sleep 0.02; done; cat $THERE; \
         watcher=$(grep -lsx \"PPid:.$holder\" /proc/[0-9]*/status | tr -dc 0-9); kill -s KILL $watcher; \
         wait $holder; echo ended $?; kill -s 0 $victim && echo alive";
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there");
    in_namespace(&OWN, |way| {
        let call = run(server.url(), "inner-numbers", &[], "echo group $$ >$THERE; exec sleep 100");
        let done = within(way, call.by(["sh", "-c", SCRIPT]).env("THERE", &there)).finish();
        assert_eq!(done.stdout, "group 2\nended 71\nalive\n", "{way:?}: {done:?}");
        run(server.url(), "inner-numbers", &["--no-wait"], "true").finish().expect(0, &[]);
    })
}
