//! The cases: bad calls without a server, the rest on a real Redis.

mod breaking;
mod call;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod daemons;
mod ends;
mod examples;
#[cfg(target_os = "linux")]
mod handles;
mod hold;
mod lists;
mod looks;
mod loss;
#[cfg(target_os = "linux")]
mod namespace;
mod once;
mod output;
mod own_file;
mod pages;
mod recipes;
mod secrecy;
mod signals;
mod steps;
#[cfg(target_os = "linux")]
mod terminal;
mod terms;
#[cfg(target_os = "linux")]
mod unkillable;
mod unread;
mod usage;
mod voice;
mod waits;
mod watch;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{Owned, Redis, Settings, judged_on};

/// A case that needs no server.
type Case = (&'static str, fn());
/// A case that returns the reason if this machine lacks what it needs.
type WherePossible = (&'static str, fn() -> Result<(), String>);
/// A case on a server of its own.
type OnServer = (&'static str, fn(&Owned));
/// A case on a server of its own that returns the reason if this machine does not allow it.
type WhereAllowed = (&'static str, fn(&Owned) -> Result<(), String>);

pub(crate) fn main() {
    let without =
        [usage::CASES, secrecy::CASES, looks::CASES, own_file::CASES, pages::WITHOUT_SERVER].concat();
    let on_server = [
        ends::CASES,
        waits::CASES,
        terms::CASES,
        once::CASES,
        loss::CASES,
        breaking::CASES,
        watch::CASES,
        hold::CASES,
        lists::CASES,
        steps::CASES,
        // They use sockets that are no files.
        #[cfg(target_os = "linux")]
        handles::CASES,
        voice::CASES,
        #[cfg(any(target_os = "linux", target_os = "android"))]
        daemons::CASES,
        signals::CASES,
        // They use setsid(1) of util-linux.
        #[cfg(target_os = "linux")]
        terminal::CASES,
        looks::ON_SERVER,
        output::CASES,
        unread::CASES,
        secrecy::ON_SERVER,
    ]
    .concat();
    let on_server = on_server.into_iter().map(|(name, case)| (name, move || case(&redis())));
    let mut trials = rules::judged("lock-cli", without);
    trials.extend(rules::judged("lock-cli", own_file::BY_SQLITE.iter().chain(own_file::BY_ROOT).copied()));
    #[cfg(target_os = "linux")]
    trials.extend(rules::judged("lock-cli", usage::BY_ROOT.iter().copied()));
    #[cfg(target_os = "linux")]
    trials.extend(rules::judged("lock-cli", handles::ON_ETCD.iter().copied()));
    trials.extend(rules::judged("lock-cli", looks::ON_ETCD.iter().chain(lists::ON_ETCD).copied()));
    trials.extend(judged_on(&Redis, on_server));
    trials.extend(judged_on(
        &Redis,
        examples::CASES
            .iter()
            .chain(recipes::CASES)
            .chain(pages::CASES)
            .map(|&(name, case)| (name, move || case(&redis()))),
    ));
    // They use unshare(1) and setpriv(1) of util-linux.
    #[cfg(target_os = "linux")]
    trials.extend(judged_on(
        &Redis,
        namespace::CASES.iter().chain(unkillable::CASES).map(|&(name, case)| (name, move || case(&redis()))),
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn redis() -> Owned {
    Owned::start(&Redis, &Settings::default()).unwrap()
}
