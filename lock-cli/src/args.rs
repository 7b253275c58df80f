//! The arguments of the program.

mod ask;
mod hold;
mod refusal;
mod run;
mod server;
mod steps;
mod terms;
mod voice;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use onelock::Name;

pub(crate) use ask::{Ask, Waiting};
pub(crate) use hold::Hold;
pub(crate) use run::Run;
pub(crate) use server::Server;
#[cfg(unix)]
pub(crate) use steps::Parent;
pub(crate) use steps::{Acquire, Release, is_acquire_for_a_shell};
pub(crate) use terms::Terms;
pub(crate) use voice::Voice;

/// Runs a command while holding a lock, and inspects or breaks locks.
#[derive(Debug, Parser)]
#[command(name = "lock", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Run),
    Hold(Hold),
    Acquire(Acquire),
    Release(Release),
    Status(Status),
    List(List),
    Watch(Watch),
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
  answer=$(lock acquire --parent $$ deploy) && eval \"$answer\" || exit; ./build; ./deploy.sh; lock release deploy
  lock status nightly-report
  lock break nightly-report --yes

Without --on, --on-file and $LOCK_URL, the locks are in a SQLite file in your state folder. They hold for your processes
on this machine.

Exit status: see the help of each command. All commands use: 64 bad usage, 69 the server can't be reached or refuses the
request, 73 the answer can't be written to stdout or is not read for 5 s. If stderr can't be written, the exit status stays the same.";

/// Shows the holder of a lock, and the waiters.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 held, 1 free, 69 the server can't be reached or refuses the request.")]
pub(crate) struct Status {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Print one JSON object; "waiters" is null if the server doesn't know the waiters
    #[arg(long)]
    pub(crate) json: bool,
}

/// Lists the locks that are held or waited for: holders, waiters, since when.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0, 64 if the server can't list its locks, 69 if it can't be reached or refuses."
)]
pub(crate) struct List {
    /// What the names begin with; by default all locks are listed
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Print one JSON object for each lock
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows who holds a lock, and each change of that, until a signal comes.
///
/// It looks once a second. A holder that came and went in between is not shown.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 128+n when signal n comes, 0 when stdout has lost its reader, 69 if the server can't be \
                  reached at the start."
)]
pub(crate) struct Watch {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Print one JSON object for each change
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes a lock away from its holder.
///
/// The holder is told within a second if the server pushes notifications, and otherwise (MySQL, SQLite, a standalone
/// MongoDB) at its next renewal. The name becomes free when the holder's work has ended, and at the latest when its
/// lease ends. No other holder runs before that. Work of --once-per that is done has no holder: the name is free at once,
/// and the work can be done again in its slot.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 broken, 1 no client held it, 64 without --yes, 69 the server can't be reached."
)]
pub(crate) struct Break {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Confirm the change; without this flag nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
    /// Make the name free at once; until the holder is told, two holders may run, with only the fencing token to tell
    /// them apart
    #[arg(long)]
    pub(crate) now: bool,
    /// How the client that broke the lock is shown to the holder and to others; by default user@host and pid
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

/// Shows what this server guarantees and can do.
#[derive(Debug, clap::Args)]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Checks whether the server can be reached, is prepared for locks, and lets this user take locks.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0, or 69 if locks will not work on this server. With --strict also 69 if they will be weak."
)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Fail also for what only weakens locks (warning), such as a server that may forget them, and for what the server
    /// does not say (unknown; not for the speed of its clock, which no single look shows)
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON object for each finding
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints what the server needs once, before its first lock (for example SQL); nothing if it needs nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Schema {
    #[command(flatten)]
    pub(crate) server: Server,
}

/// Sets up what the server needs once, before its first lock, if it is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Confirm the change; without this flag nothing is changed
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Prints a script that completes this program's arguments in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: lock completions bash > ~/.local/share/bash-completion/completions/lock")]
pub(crate) struct Completions {
    /// The shell
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
