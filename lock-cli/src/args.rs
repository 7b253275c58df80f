//! What the program is called with.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use onelock::{Name, parse_duration};

use crate::exit::{Exit, Failure};

/// Where the server's URL is looked for when the call doesn't name one.
const URL_VARIABLE: &str = "LOCK_URL";

/// Runs any command under a lock.
#[derive(Debug, Parser)]
#[command(name = "lock", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Run),
}

/// Runs a command while holding a lock.
#[derive(Debug, clap::Args)]
#[command(after_long_help = RUN_HELP)]
pub(crate) struct Run {
    /// The server: redis://host:6379/0, rediss://…, unix:///path/of/socket, memory://
    ///
    /// By default what $LOCK_URL says: unlike an argument, that can't be seen in `ps`.
    #[arg(long, value_name = "URL")]
    on: Option<String>,

    /// The lock's name
    #[arg(long, value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,

    /// How long the lock outlives us if we vanish; renewed every third of it; 30s by default
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock and the server; by default without end for the lock, and not for the server
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Give up at once if somebody else holds the lock
    #[arg(long)]
    no_wait: bool,

    /// What others are shown of the holder; by default user@host, pid and command
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Say on stderr when the lock is acquired
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The command and its arguments; it finds LOCK_NAME and LOCK_TOKEN in its environment
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

const RUN_HELP: &str = "\
Exit status: the command's own, or
  128+n  signal n ended the command, or the wait
  75     not acquired: somebody else held the lock
  74     the lock was lost while the command ran, whatever the command's own end
  69     the server can't be reached, or refuses
  64     bad usage, name, duration or URL
  71     the operating system refused what lock itself needs
  126    the command can't be executed
  127    the command is not found

The command runs in a process group of its own. Signals are passed on to it. If the lease can't be renewed, the group
gets SIGTERM a while before it ends (5 s, or a third of the ttl) and SIGKILL just before. When the command ends, what
it leaves running in its group is killed, and the lock released. On Linux that includes daemons, whatever their group
and session are.

A second process of lock, the watcher, kills the command just before the lease ends even if lock itself is stopped or
swapped out, and at once if lock is killed. Ctrl-Z stops the command and lock, so nobody renews: continue it before
the lease ends, or it is lost. Nothing kills the command in time if the watcher doesn't run either, as on a machine
that was asleep: let the resource check LOCK_TOKEN, which rises with every holder.

Examples:
  export LOCK_URL=redis://localhost
  lock run --name nightly-report -- ./report.sh
  lock run --name deploy --no-wait -- ./deploy.sh production || echo \"not now\"
  lock run --name migrate --wait 5m --ttl 10s -- sh -c 'echo \"token $LOCK_TOKEN\"; ./migrate'";

/// How long a call is prepared to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For the lock without end.
    ForEver,
    /// For the server and the lock together.
    AtMost(Duration),
    /// Not at all.
    No,
}

impl Run {
    /// The server's URL.
    pub(crate) fn url(&self) -> Result<String, Failure> {
        let from_environment = || std::env::var(URL_VARIABLE).ok().filter(|url| !url.is_empty());
        self.on.clone().or_else(from_environment).ok_or_else(|| {
            let what =
                format!("no server: give --on URL, or set ${URL_VARIABLE} (redis://localhost, for one)");
            Failure::new(Exit::Usage, what)
        })
    }

    pub(crate) fn waiting(&self) -> Waiting {
        match (self.wait, self.no_wait) {
            (Some(wait), _) => Waiting::AtMost(wait),
            (None, true) => Waiting::No,
            (None, false) => Waiting::ForEver,
        }
    }
}

impl Args {
    pub(crate) fn read() -> Result<Args, Refusal> {
        Args::try_parse().map_err(Refusal)
    }
}

/// Arguments that start nothing: a mistake, or a wish for help.
#[derive(Debug)]
pub(crate) struct Refusal(clap::Error);

impl Refusal {
    /// Help goes to stdout, because it was asked for; complaints to stderr.
    pub(crate) fn show(&self) -> Exit {
        match self.0.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // Nobody is left to be told that stdout is closed.
                let _: std::io::Result<()> = self.0.print();
                Exit::Status(0)
            }
            _ => {
                let complaint = self.0.render().to_string();
                eprint!("lock: {}", complaint.strip_prefix("error: ").unwrap_or(&complaint));
                Exit::Usage
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_call_says_how_long_it_waits() {
        let waiting = |flags: &[&str]| {
            let call = ["lock", "run", "--name", "n"].iter().chain(flags).chain(&["--", "true"]);
            let Verb::Run(run) = Args::try_parse_from(call)?.verb;
            Ok::<_, clap::Error>(run.waiting())
        };
        assert_eq!(waiting(&[]).unwrap(), Waiting::ForEver);
        assert_eq!(waiting(&["--no-wait"]).unwrap(), Waiting::No);
        assert_eq!(waiting(&["--wait", "1.5s"]).unwrap(), Waiting::AtMost(Duration::from_millis(1500)));
        assert!(waiting(&["--wait", "1s", "--no-wait"]).is_err());
        assert!(waiting(&["--wait", "1"]).is_err());
    }
}
