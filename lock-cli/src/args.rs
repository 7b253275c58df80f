//! What the program is called with.

mod refusal;
mod run;
mod server;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use onelock::Name;

pub(crate) use run::{Run, Waiting};
pub(crate) use server::Server;

/// Runs any command under a lock, and looks after locks.
#[derive(Debug, Parser)]
#[command(name = "lock", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Run),
    Status(Status),
    Break(Break),
    Info(Info),
    Check(Check),
    Schema(Schema),
    Init(Init),
    Completions(Completions),
    Man(Man),
}

const EXAMPLES: &str = "\
Examples:
  lock run --name nightly-report -- ./report.sh
  lock run --on redis://localhost --name deploy --no-wait -- ./deploy.sh || echo \"not now\"
  lock status nightly-report
  lock break nightly-report --yes

Without --on, --on-file and $LOCK_URL the server is a SQLite file in your state folder: it locks for your processes on
this machine.

Exit status: each command says its own in its help. For all of them: 64 bad usage, 69 the server can't be reached, or
refuses, 73 the answer can't be written to stdout. A stderr that can't be written changes nothing.";

/// Says who holds a lock and who waits for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 held, 1 free, 69 if the server can't be reached, or refuses.")]
pub(crate) struct Status {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) server: Server,
    /// One JSON object; waiters that the server doesn't know are null
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes a lock away from its holder.
///
/// The holder is told: within a second where the server pushes, at its next renewal elsewhere (MySQL, SQLite, a standalone
/// MongoDB). The name becomes free when its work has ended, or else at the end of its lease: no other holder runs before.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 broken, 1 nobody held it, 64 without --yes, 69 if the server can't be reached."
)]
pub(crate) struct Break {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Really
    #[arg(long)]
    pub(crate) yes: bool,
    /// Make the name free at once: until the holder learns of it, two may run, with only the fencing token between them
    #[arg(long)]
    pub(crate) now: bool,
    /// What the holder and others are shown of who broke it; by default user@host and pid
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

/// Says what the server guarantees and can do, as found on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) server: Server,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Says whether the server is reachable and prepared, and whether we are allowed to lock on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0, or 69 if locks will not work.")]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) server: Server,
    /// One JSON object a finding
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints what the server needs once, before its first lock; nothing if it needs nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Schema {
    #[command(flatten)]
    pub(crate) server: Server,
}

/// Makes what the server needs once, before its first lock, where it is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Really
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Prints a script that completes this program's arguments in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: lock completions bash > ~/.local/share/bash-completion/completions/lock")]
pub(crate) struct Completions {
    /// Which shell
    pub(crate) shell: Shell,
}

/// Prints this program's manual page.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: lock man | man -l -")]
pub(crate) struct Man {}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
