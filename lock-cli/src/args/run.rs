//! The arguments of `lock run`.

use std::ffi::OsString;
use std::time::Duration;

use onelock::{Name, parse_duration};

use super::{Ask, Voice};
use crate::os::Daemons;

/// Runs a command while holding a lock.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Run {
    /// The lock's name
    #[arg(long, value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,

    #[command(flatten)]
    pub(crate) ask: Ask,

    /// How long the command may hold the lock; then it gets SIGTERM, and --kill-grace later SIGKILL
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_hold: Option<Duration>,

    /// The shortest time for which the lock is held, so that machines whose clocks differ don't run the same job twice;
    /// if the command ends earlier, lock keeps it until the time is over
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) min_hold: Option<Duration>,

    /// Run the command once in each slot of this length, by the server's clock: if it ends with 0, the lock stays held
    /// until its slot ends, and lock itself ends; with any other status, another client may run it in the same slot
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "min_hold")]
    pub(crate) once_per: Option<Duration>,

    /// How much later the slots of --once-per begin than with the hour or the day in UTC
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "once_per")]
    pub(crate) at_offset: Option<Duration>,

    /// How long before SIGKILL the command gets SIGTERM, when the lock is about to be lost or --max-hold is over; at
    /// most a third of the ttl
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5s")]
    pub(crate) kill_grace: Duration,

    /// How the holder is shown to other clients; by default user@host, pid and command
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// The exit status if the command was ended because --max-hold was over
    #[arg(long, value_name = "N", default_value_t = 124)]
    pub(crate) max_hold_exit_code: u8,

    /// Let the daemons that the command leaves behind go on without the lock, when the command ends by itself; without
    /// this flag they are killed. If the lock is lost, they are always killed
    #[arg(long)]
    keep_daemons: bool,

    /// Say on stderr on which server lock has acquired the lock, and with which token
    #[arg(short, long)]
    verbose: bool,

    /// Say nothing while lock waits, and nothing if another client holds the lock; failures and losses are still said
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,

    /// Say everything as JSON objects on stderr, one on each line
    #[arg(long, conflicts_with_all = ["verbose", "quiet"])]
    pub(crate) json: bool,

    /// Run this line by the shell (sh -c) instead of a command with arguments
    #[arg(short = 'c', long = "command", value_name = "LINE", conflicts_with = "command")]
    line: Option<OsString>,

    /// The command and its arguments; it finds LOCK_NAME, LOCK_TOKEN and LOCK_HELD in its environment
    #[arg(last = true, required_unless_present = "line", value_name = "CMD")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Exit status: the command's own, or
  128+n  signal n ended the command, or the wait
  124    --max-hold was over and the command was ended, whatever its own status (--max-hold-exit-code sets another)
  75     not acquired: another client held the lock (-E sets another status)
  77     the lock is not held any more, and a process of the command that can't be ended goes on: stderr names it
  74     the lock was lost while the command ran, whatever the command's own status
  69     the server can't be reached or refuses the request
  64     bad usage, name, duration or URL; or this lock is held around this command already
  71     the operating system refused something that lock itself needs
  126    the command can't be executed
  127    the command is not found

The command runs in a process group of its own. Signals are passed on to it, also real-time signals, except those that
tell a process of its own faults and files (SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP, SIGPIPE, SIGXFSZ), SIGCHLD,
and SIGTSTP, SIGTTIN and SIGTTOU, which stop lock itself. While lock waits for the lock, a signal ends it, except SIGURG,
SIGCONT and, if it has a terminal, SIGWINCH. If the lease can't be renewed, the group
gets SIGTERM some time before the lease ends (--kill-grace), and SIGKILL shortly before it ends. If the lock is broken
(lock break), the group gets SIGTERM when this holder is told: within a second if the server pushes notifications, at
the next renewal on MySQL, SQLite and a standalone MongoDB. It gets SIGKILL shortly before the lease ends. If another
client has the lock, or the server has lost it, the group gets SIGKILL at once. When the command ends, the processes
that it leaves running in its group are killed, and the lock is released. On Linux that includes daemons, whatever their
group and session are; a line on stderr tells of them. With --keep-daemons they go on without the lock. They are killed
all the same if the lock is lost, if --max-hold is over, or if lock is killed.

A process that refuses SIGKILL, as a program of another user that sudo has started, or that does not end, as one that
waits for a network file system, is told of after a second. The lock is kept until it has ended, for as long as the lock
can be renewed. If the lock is lost before, the exit status is 77. A signal that comes a second after that line or later
ends lock, with 77 too, and leaves the lock to its ttl. A process above one that refuses signals gets SIGTERM first, so
that it can pass that on, and SIGKILL a second later, or when the lease ends. What is no descendant of the command is
never ended: containers (docker run), remote commands (ssh), units (systemd-run), jobs that were sent to a queue (at).

A second process of lock, the watcher, kills the command shortly before the lease ends even if lock itself is stopped or
swapped out, and at once if lock is killed. Ctrl-Z stops the command and lock, so the lease is not renewed: continue
them before the lease ends, or the lock is lost. The command is not killed in time if the watcher doesn't run either, as
on a machine that was asleep; its daemons are not killed in time if the watcher is killed while lock is stopped. For
these cases, let the resource check LOCK_TOKEN, which rises with every holder.

--max-hold counts from the grant: the command may use all of it, and has its grace after it. The lock is kept until the
command has ended.

A signal that comes while lock waits for --min-hold doesn't shorten the wait: the lock is released when the time is
over, and the exit status is 128+n. A second signal ends lock at once, and the lock stays until its ttl is over. A
signal within a second of the first counts as the same signal. After --min-hold the exit status is the command's: a
signal that comes during the release only limits how long lock waits for the server, to 2 s. SIGUSR1 and SIGUSR2 do not
count as such signals: they are for the command alone.

With --once-per 1h the command runs once in each hour, on one of all machines that try, whatever their own clocks show.
The slots count from the beginning of 1970 (UTC), plus --at-offset: 3h with --once-per 24h begins each slot at 3 o'clock
UTC. The slot is the one in which the lock was acquired. If the slot is done, or another client runs the command, that
counts as a lock that is held: lock waits for the next slot, or with --no-wait ends with 75 (or -E). A command that fails
or is killed gives its slot back at once; if lock and its watcher die, the slot is free when the ttl is over. If less
than one ttl is left of the slot when the command ends, lock waits for the slot's end. lock break --now lets the command
run again in the same slot. Servers that tell no time refuse --once-per before anything is taken, with 64.

LOCK_HELD lists the locks that are held around the command, one on each line: each lock by its token and its server's
address and, if the server has an identity, also by that. If a lock of this list is still held with that token, lock
refuses it and doesn't wait for it.

While lock waits, it says on stderr for which lock, on which server, and which client holds it: at the start of the wait
and once a minute, or all the time if stderr is a terminal. With --json it says by objects what happens: the events are
waiting, held, trouble, renewed, left_behind, goes_on, lost, released and failed.

Examples:
  lock run --name nightly-report -- ./report.sh
  export LOCK_URL=redis://localhost
  lock run --name deploy --no-wait -- ./deploy.sh production || echo \"not now\"
  lock run --name migrate --wait 5m --ttl 10s -c 'echo \"token $LOCK_TOKEN\"; ./migrate'
  lock run --name hourly --no-wait -E 0 --min-hold 1m -- ./hourly.sh
  lock run --name nightly --no-wait -E 0 --once-per 24h --at-offset 3h -- ./nightly.sh";

impl Run {
    pub(crate) fn voice(&self) -> Voice {
        match (self.quiet, self.verbose) {
            (true, _) => Voice::Quiet,
            (false, true) => Voice::Verbose,
            (false, false) => Voice::Usual,
        }
    }

    /// Returns what happens to daemons at the end of the command.
    pub(crate) fn daemons(&self) -> Daemons {
        if self.keep_daemons { Daemons::Kept } else { Daemons::Killed }
    }

    /// Returns the command and its arguments. Never empty.
    pub(crate) fn command(&self) -> Vec<OsString> {
        match &self.line {
            Some(line) => [SHELL[0].into(), SHELL[1].into(), line.clone()].into(),
            None => self.command.clone(),
        }
    }
}

/// The shell for `-c`, and its option before the line.
#[cfg(not(windows))]
const SHELL: [&str; 2] = ["sh", "-c"];
#[cfg(windows)]
const SHELL: [&str; 2] = ["cmd", "/C"];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Args, Verb};
    use super::*;

    #[test]
    fn a_call_has_a_command_or_a_line() {
        let command = |rest: &[&str]| {
            let call = ["lock", "run", "--name", "n"].iter().chain(rest);
            let Verb::Run(run) = Args::try_parse_from(call)?.verb else { panic!("it runs") };
            Ok::<_, clap::Error>(run.command())
        };
        assert_eq!(command(&["--", "echo", "a b"]).unwrap(), ["echo", "a b"]);
        assert_eq!(command(&["-c", "echo a | cat"]).unwrap(), [SHELL[0], SHELL[1], "echo a | cat"]);
        assert!(command(&[]).is_err());
        assert!(command(&["-c", "true", "--", "true"]).is_err());
    }
}
