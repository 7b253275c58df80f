//! Which servers are missing here, and their installation.

use std::env::var_os;
use std::io::{self, IsTerminal, Write};

use crate::catalogue::{ALL, Listing};
use crate::install::Machine;

/// Whether servers may be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The command line said so.
    Given,
    /// Each is asked for, if there is somebody to ask.
    Asked,
}

/// Installs what is missing, as far as that is wanted and possible; returns what is missing still, in words.
pub(crate) fn servers(consent: Consent) -> Vec<String> {
    let missing = ALL.iter().filter(|server| is_missing(server));
    missing
        .filter_map(|server| offer(server, consent).err().map(|why| format!("{}: {why}", server.name)))
        .collect()
}

fn is_missing(server: &Listing) -> bool {
    let given = var_os(server.variable).is_some_and(|url| !url.is_empty());
    !given && server.program(&var_os("PATH").unwrap_or_default()).is_none()
}

fn offer(server: &Listing, consent: Consent) -> Result<(), String> {
    let programs = server.programs();
    println!("{}: there is no {programs} on the PATH, and no URL in {}", server.name, server.variable);
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
    if is_missing(server) { Err(format!("`{command}` brought no {programs}")) } else { Ok(()) }
}

/// Whether the person at the terminal says yes; nobody there says no.
fn ask(question: &str) -> bool {
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
