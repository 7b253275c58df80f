//! The cases: bad calls without a server, the rest on a real Redis.

mod breaking;
mod call;
mod ends;
mod looks;
mod loss;
mod own_file;
mod signals;
#[cfg(target_os = "linux")]
mod terminal;
mod terms;
mod usage;
mod waits;
mod watch;

use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use lock_conformance::servers::{Absence, Owned, Redis, Settings};

/// A case that needs no server.
type Case = (&'static str, fn());
/// A case on a server that it shares with others and leaves as it is: every case has a lock of its own name.
type OnServer = (&'static str, fn(&Owned));

pub(crate) fn main() {
    let arguments = Arguments::from_args();
    let without = [usage::CASES, looks::CASES, own_file::CASES].concat();
    let mut trials: Vec<Trial> = without.into_iter().map(|(name, case)| trial(name, case)).collect();
    let on_server = [
        ends::CASES,
        waits::CASES,
        terms::CASES,
        loss::CASES,
        breaking::CASES,
        watch::CASES,
        signals::CASES,
        // By setsid(1) of util-linux.
        #[cfg(target_os = "linux")]
        terminal::CASES,
        looks::ON_SERVER,
    ]
    .concat();
    let server = match Owned::start(&Redis, &Settings::default()) {
        Ok(server) => {
            let server = Arc::new(server);
            trials.extend(on_server.into_iter().map(|(name, case)| {
                let server = server.clone();
                trial(name, move || case(&server))
            }));
            Some(server)
        }
        Err(Absence::NotRun(why)) => {
            eprintln!("not run: {} cases that need a Redis: {why}", on_server.len());
            trials.extend(on_server.into_iter().map(|(name, _)| trial(name, || {}).with_ignored_flag(true)));
            None
        }
        Err(Absence::Failure(why)) => {
            let why = why.clone();
            trials.push(Trial::test("a Redis to run on", move || Err(Failed::from(why))));
            None
        }
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    // Before the exit, which drops nothing.
    drop(server);
    conclusion.exit();
}

fn trial(name: &str, case: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        case();
        Ok(())
    })
}
