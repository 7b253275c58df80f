//! What `lock run` is called with.

use std::ffi::OsString;
use std::time::Duration;

use onelock::{Name, parse_duration};

use super::Server;

/// Runs a command while holding a lock.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Run {
    /// The lock's name
    #[arg(long, value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,

    #[command(flatten)]
    pub(crate) server: Server,

    /// How long the lock outlives us if we vanish; renewed every third of it; 30s by default
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock and the server; by default without end for the lock, and not for the server
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Give up at once if somebody else holds the lock
    #[arg(long)]
    no_wait: bool,

    /// How long the command may hold the lock; then it gets SIGTERM, and --kill-grace later SIGKILL
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_hold: Option<Duration>,

    /// The shortest time that the lock is held, so that machines whose clocks differ don't run the same job twice; it is
    /// waited for when the command has ended
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) min_hold: Option<Duration>,

    /// How long before it is killed the command gets SIGTERM when the lock is about to be lost, or --max-hold is over; a
    /// third of the ttl at most
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5s")]
    pub(crate) kill_grace: Duration,

    /// The exit status if somebody else held the lock
    #[arg(short = 'E', long, value_name = "N", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,

    /// What others are shown of the holder; by default user@host, pid and command
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Say on stderr on which server the lock is waited for and acquired
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The command and its arguments; it finds LOCK_NAME, LOCK_TOKEN and LOCK_HELD in its environment
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

const HELP: &str = "\
Exit status: the command's own, or
  128+n  signal n ended the command, or the wait
  124    --max-hold was over and the command was ended, whatever its own end
  75     not acquired: somebody else held the lock (or -E)
  74     the lock was lost while the command ran, whatever the command's own end
  69     the server can't be reached, or refuses
  64     bad usage, name, duration or URL; a lock that is held around this very command
  71     the operating system refused what lock itself needs
  126    the command can't be executed
  127    the command is not found

The command runs in a process group of its own. Signals are passed on to it. If the lease can't be renewed, the group
gets SIGTERM a while before it ends (--kill-grace) and SIGKILL just before. If the lock is broken (lock break), SIGTERM
comes when this holder is told (within a second where the server pushes, at its next renewal on MySQL, SQLite and a
standalone MongoDB) and SIGKILL just before the lease ends; if another client has it, or the server forgot it, SIGKILL
comes at once. When the command ends, what it leaves running in its group is killed, and the lock released. On Linux that
includes daemons, whatever their group and session are.

A second process of lock, the watcher, kills the command just before the lease ends even if lock itself is stopped or
swapped out, and at once if lock is killed. Ctrl-Z stops the command and lock, so nobody renews: continue it before
the lease ends, or it is lost. Nothing kills the command in time if the watcher doesn't run either, as on a machine
that was asleep, nor its daemons if the watcher is killed while lock is stopped: let the resource check LOCK_TOKEN, which
rises with every holder.

--max-hold counts from the grant: the command has all of it, and its grace behind it. The lock is kept until the command
has ended. A signal that comes while --min-hold is waited for doesn't cut that short: the lock is given back when it is
over, and the exit status is 128+n. A second one ends lock at once, and leaves the lock to its ttl; what comes within a
second of the first is the same one. Behind --min-hold the exit status is the command's: a signal that comes with the
release only limits how long the server is waited for, to 2 s. SIGUSR1 and SIGUSR2 are for the command alone.

LOCK_HELD names the locks that are held around the command, each by its server's address and, where the server says
which it is, by that, one a line: a lock that it names is not waited for.

Examples:
  lock run --name nightly-report -- ./report.sh
  export LOCK_URL=redis://localhost
  lock run --name deploy --no-wait -- ./deploy.sh production || echo \"not now\"
  lock run --name migrate --wait 5m --ttl 10s -- sh -c 'echo \"token $LOCK_TOKEN\"; ./migrate'
  lock run --name hourly --no-wait -E 0 --min-hold 1m -- ./hourly.sh";

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
    pub(crate) fn waiting(&self) -> Waiting {
        match (self.wait, self.no_wait) {
            (Some(wait), _) => Waiting::AtMost(wait),
            (None, true) => Waiting::No,
            (None, false) => Waiting::ForEver,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Args, Verb};
    use super::*;

    #[test]
    fn a_call_says_how_long_it_waits() {
        let waiting = |flags: &[&str]| {
            let call = ["lock", "run", "--name", "n"].iter().chain(flags).chain(&["--", "true"]);
            let Verb::Run(run) = Args::try_parse_from(call)?.verb else { panic!("it runs") };
            Ok::<_, clap::Error>(run.waiting())
        };
        assert_eq!(waiting(&[]).unwrap(), Waiting::ForEver);
        assert_eq!(waiting(&["--no-wait"]).unwrap(), Waiting::No);
        assert_eq!(waiting(&["--wait", "1.5s"]).unwrap(), Waiting::AtMost(Duration::from_millis(1500)));
        assert!(waiting(&["--wait", "1s", "--no-wait"]).is_err());
        assert!(waiting(&["--wait", "1"]).is_err());
    }
}
