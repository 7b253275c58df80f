//! What is missing here, and its installation: servers first of all.

use std::env::var_os;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use crate::catalogue::{ALL, Found, Listing};
use crate::foreign;
use crate::install::{Machine, is_root};

/// Whether what is missing may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The command line said so.
    Given,
    /// Each is asked for, if there is somebody to ask.
    Asked,
}

/// `cargo xtask servers`
pub(crate) fn run(consent: Consent) -> ExitCode {
    let missing = servers(ALL, consent);
    for server in ALL.iter().filter(|server| lack(server).is_none()) {
        println!("{}: there", server.name);
    }
    // Without these, tests of servers that are there run all the same.
    missing.iter().chain(&foreign::clients(consent)).for_each(|why| println!("{why}"));
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Installs what is missing, as far as that is wanted and possible; returns what is missing still, in words.
pub(crate) fn servers(wanted: &[&Listing], consent: Consent) -> Vec<String> {
    let lacking = wanted.iter().filter_map(|server| Some((server, lack(server)?)));
    lacking
        .filter_map(|(server, why)| {
            println!("{}: {why}", server.name);
            offer(server, consent).err().map(|why| format!("{}: {why}", server.name))
        })
        .collect()
}

/// Why tests could not run on it, if they couldn't.
fn lack(server: &Listing) -> Option<String> {
    if var_os(server.variable).is_some_and(|url| !url.is_empty()) {
        return None;
    }
    match server.find(&var_os("PATH").unwrap_or_default()) {
        None => Some(server.missing()),
        Some(Found { system: Some(_), program }) if !is_root() => {
            Some(format!("{} is run under chroot, which takes root", program.display()))
        }
        Some(_) => None,
    }
}

fn offer(server: &Listing, consent: Consent) -> Result<(), String> {
    let mut installation = Machine::here().installation(server).map_err(|needs| {
        format!("it can't be installed here (that takes {needs}); give a URL in {}", server.variable)
    })?;
    let command = installation.described.clone();
    if consent == Consent::Asked && !ask(&format!("Run `{command}`? No service will be started or enabled."))
    {
        return Err(format!("not installed; --yes does it, or run: {command}"));
    }
    println!("Running `{command}`; no service will be started or enabled.");
    installation.run().map_err(|why| format!("`{command}` failed: {why}"))?;
    lack(server).map_or(Ok(()), |why| Err(format!("`{command}` is done, and still {why}")))
}

/// Whether the person at the terminal says yes; nobody there says no.
pub(crate) fn ask(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    print!("{question} [y/N] ");
    let mut answer = String::new();
    let asked = io::stdout().flush().and_then(|()| io::stdin().read_line(&mut answer));
    asked.is_ok() && is_yes(&answer)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::is_yes;

    #[test]
    fn only_a_yes_is_a_yes() {
        assert!(is_yes("y\n") && is_yes(" Yes \r\n"));
        assert!(!is_yes("\n") && !is_yes("") && !is_yes("no") && !is_yes("yy"));
    }
}
