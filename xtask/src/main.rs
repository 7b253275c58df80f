//! `cargo xtask`: the commands that the README and `.ci/run` call.

mod api;
mod beside;
#[allow(unreachable_pub, reason = "it is a file of lock-test-servers, and public there")]
#[path = "../../conformance/servers/src/catalogue.rs"]
mod catalogue;
mod ci;
mod deny;
mod documents;
#[allow(unreachable_pub, reason = "it is the suite's file, and public there")]
#[path = "../../conformance/suite/src/environment.rs"]
mod environment;
mod evidence;
mod foreign;
mod git;
mod install;
#[allow(unreachable_pub, reason = "it is a file of lock-foreign-clients, and public there")]
#[path = "../../conformance/foreign/src/catalogue.rs"]
mod interop;
mod levels;
mod mutants;
mod nightly;
#[allow(unreachable_pub, reason = "the benchmark includes this file, too")]
#[path = "../../bench/peers/catalogue.rs"]
mod peers;
mod scratch;
mod setup;
mod steps;
mod summary;
mod targets;
mod test;
mod workspace;

use std::process::ExitCode;

use api::Purpose;
use mutants::Choice;
use setup::Consent;
use test::Extent;

const USAGE: &str = "\
Usage: cargo xtask <command>

Commands:
  test [--quick] [--yes]
                 Run every test, on real servers too. Install servers that are missing, and
                 build drivers of other libraries' clients, after asking; with --yes without
                 asking. --quick runs the tests of memory, SQLite and Redis only.
  nightly [--quick | --again NAME… | --status] [--yes]
                 Run all of that in its full size, and hundreds of thousands of histories of the
                 simulation: hours, or 20 minutes with --quick, on two processors. --again runs only
                 the test programs and families whose names contain NAME, such as
                 \"simulation: lease\". --status prints how the last run ended.
  servers [--yes]
                 Install the servers that are missing, build the drivers, and do nothing else.
  peers [--yes]  Build the drivers of other libraries' locks in other languages, which only
                 `lock-bench run --peers` measures, after asking; with --yes without asking.
  ci             Check formatting, lints, documentation, the public API and every feature by itself.
  api [--write]  Compare the public API of the libraries with the listings in docs/public-api. With
                 --write make the listings anew.
  docs           Write the lists of tests in docs/semantics.md, bug-classes.md and faults.md.
  mutants [NAME… | --changed [--since REVISION]]
                 Plant the bugs of conformance/mutants in a copy, and see whether their cases notice:
                 all, those whose paths contain NAME, or those that the changes concern since a
                 branch left main, or on main since the last commit.";

/// The task that the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Test(Extent, Consent),
    Nightly(Extent, Consent),
    Status,
    Servers(Consent),
    Peers(Consent),
    Ci,
    Api(Purpose),
    Docs,
    Mutants(Choice),
    Usage,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(Task::Test(extent, consent)) => test::run(&extent, consent),
        Ok(Task::Nightly(extent, consent)) => nightly::run(&extent, consent),
        Ok(Task::Status) => nightly::status(),
        Ok(Task::Servers(consent)) => setup::run(consent),
        Ok(Task::Peers(consent)) => setup::run_peers(consent),
        Ok(Task::Ci) => ci::run(),
        Ok(Task::Api(purpose)) => api::run(purpose),
        Ok(Task::Docs) => evidence::write(),
        Ok(Task::Mutants(choice)) => mutants::run(&choice),
        Ok(Task::Usage) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(argument) => {
            eprintln!("xtask: {argument:?} is not known here\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Reads the command line. The error is the argument that is not understood.
fn parse<'a>(arguments: &[&'a str]) -> Result<Task, &'a str> {
    match arguments {
        [] | ["help" | "--help" | "-h", ..] => Ok(Task::Usage),
        ["test", flags @ ..] => parse_test(flags).map(|(extent, consent)| Task::Test(extent, consent)),
        ["servers"] => Ok(Task::Servers(Consent::Asked)),
        ["servers", "--yes"] => Ok(Task::Servers(Consent::Given)),
        ["peers"] => Ok(Task::Peers(Consent::Asked)),
        ["peers", "--yes"] => Ok(Task::Peers(Consent::Given)),
        ["nightly", "--status"] => Ok(Task::Status),
        ["nightly", "--again", names @ ..] => parse_again(names),
        ["nightly", flags @ ..] => parse_test(flags).map(|(extent, consent)| Task::Nightly(extent, consent)),
        ["ci"] => Ok(Task::Ci),
        ["api"] => Ok(Task::Api(Purpose::Compare)),
        ["api", "--write"] => Ok(Task::Api(Purpose::Write)),
        ["docs"] => Ok(Task::Docs),
        ["mutants", arguments @ ..] => parse_mutants(arguments),
        ["servers" | "peers" | "ci" | "api" | "docs", .., wrong] | [wrong, ..] => Err(wrong),
    }
}

fn parse_test<'a>(flags: &[&'a str]) -> Result<(Extent, Consent), &'a str> {
    let (mut extent, mut consent) = (Extent::Everything, Consent::Asked);
    for flag in flags {
        match *flag {
            "--quick" => extent = Extent::Quick,
            "--yes" => consent = Consent::Given,
            wrong => return Err(wrong),
        }
    }
    Ok((extent, consent))
}

/// Reads the names of the programs that a nightly run repeats.
fn parse_again<'a>(arguments: &[&'a str]) -> Result<Task, &'a str> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().copied().partition(|name| name.starts_with('-'));
    match (parse_test(&flags)?, names.is_empty()) {
        ((Extent::Everything, consent), false) => {
            Ok(Task::Nightly(Extent::Programs(names.into_iter().map(str::to_owned).collect()), consent))
        }
        (_, true) => Err("--again"),
        _ => Err("--quick"),
    }
}

fn parse_mutants<'a>(arguments: &[&'a str]) -> Result<Task, &'a str> {
    let choice = match arguments {
        [] => Choice::All,
        ["--changed"] => Choice::Changed(None),
        ["--changed", "--since", revision] => Choice::Changed(Some((*revision).to_owned())),
        ["--changed", .., wrong] => return Err(wrong),
        names => match names.iter().find(|name| name.starts_with('-')) {
            Some(wrong) => return Err(wrong),
            None => Choice::Named(names.iter().map(|name| (*name).to_owned()).collect()),
        },
    };
    Ok(Task::Mutants(choice))
}

#[cfg(test)]
mod tests {
    use super::{Choice, Consent, Extent, Purpose, Task, parse};

    #[test]
    fn commands_are_read() {
        let named = |name: &str| vec![name.to_owned()];
        for (typed, task) in [
            ("test", Task::Test(Extent::Everything, Consent::Asked)),
            ("test --yes --quick", Task::Test(Extent::Quick, Consent::Given)),
            ("servers --yes", Task::Servers(Consent::Given)),
            ("peers", Task::Peers(Consent::Asked)),
            ("nightly --quick", Task::Nightly(Extent::Quick, Consent::Asked)),
            (
                "nightly --again lock-zk: --yes",
                Task::Nightly(Extent::Programs(named("lock-zk:")), Consent::Given),
            ),
            ("nightly --status", Task::Status),
            ("ci", Task::Ci),
            ("api --write", Task::Api(Purpose::Write)),
            ("docs", Task::Docs),
            ("mutants", Task::Mutants(Choice::All)),
            ("mutants lock-redis/", Task::Mutants(Choice::Named(named("lock-redis/")))),
            ("mutants --changed", Task::Mutants(Choice::Changed(None))),
            ("mutants --changed --since v1", Task::Mutants(Choice::Changed(Some("v1".to_owned())))),
            ("", Task::Usage),
        ] {
            assert_eq!(parse(&typed.split_whitespace().collect::<Vec<_>>()), Ok(task), "{typed}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        for (typed, wrong) in [
            ("tset", "tset"),
            ("test --no", "--no"),
            ("nightly --again --yes", "--again"),
            ("nightly --again zk --quick", "--quick"),
            ("servers mysql", "mysql"),
            ("ci --yes", "--yes"),
            ("mutants --changed --since", "--since"),
            ("mutants queue --all", "--all"),
        ] {
            assert_eq!(parse(&typed.split_whitespace().collect::<Vec<_>>()), Err(wrong), "{typed}");
        }
    }
}
