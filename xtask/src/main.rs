//! `cargo xtask test` and `cargo xtask ci`: what README's commands and `.ci/run` call.

#[allow(unreachable_pub, reason = "it is the suite's file, and public there")]
#[path = "../../conformance/src/servers/catalogue.rs"]
mod catalogue;
mod ci;
mod documents;
mod install;
mod setup;
mod steps;
mod summary;
mod test;
mod workspace;

use std::process::ExitCode;

use setup::Consent;

const USAGE: &str = "\
Usage: cargo xtask <command>

Commands:
  test [--yes]   Run every test, on real servers too. Servers that are missing are installed,
                 after asking; --yes installs without asking.
  ci             Check formatting, lints, documentation and every feature by itself.";

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Test(Consent),
    Ci,
    Usage,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(Task::Test(consent)) => test::run(consent),
        Ok(Task::Ci) => ci::run(),
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

/// Reads the command line; the error is the argument that makes no sense.
fn parse<'a>(arguments: &[&'a str]) -> Result<Task, &'a str> {
    match arguments {
        [] | ["help" | "--help" | "-h", ..] => Ok(Task::Usage),
        ["test"] => Ok(Task::Test(Consent::Asked)),
        ["test", "--yes"] => Ok(Task::Test(Consent::Given)),
        ["ci"] => Ok(Task::Ci),
        ["test" | "ci", .., wrong] | [wrong, ..] => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::{Consent, Task, parse};

    #[test]
    fn commands_are_read() {
        assert_eq!(parse(&["test"]), Ok(Task::Test(Consent::Asked)));
        assert_eq!(parse(&["test", "--yes"]), Ok(Task::Test(Consent::Given)));
        assert_eq!(parse(&["ci"]), Ok(Task::Ci));
        assert_eq!(parse(&[]), Ok(Task::Usage));
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        assert_eq!(parse(&["tset"]), Err("tset"));
        assert_eq!(parse(&["test", "--no"]), Err("--no"));
        assert_eq!(parse(&["ci", "--yes"]), Err("--yes"));
    }
}
