//! The arguments of `lock acquire` and `lock release`.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Duration;

use onelock::{Name, parse_duration};

use super::{Server, Terms};

/// Takes a lock for a job of several steps. A process in the background, the keeper, holds it until `lock release`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ACQUIRE_HELP)]
pub(crate) struct Acquire {
    #[command(flatten)]
    pub(crate) terms: Terms,

    /// The process whose end ends the hold: its pid, or none (then --max-hold must be given); by default the process
    /// that has started this command
    #[arg(long, value_name = "PID")]
    pub(crate) parent: Option<Parent>,

    /// Take the lock for this time, without a keeper: no process renews it, and only lock release, on any machine, ends
    /// it earlier (not on etcd and ZooKeeper)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with_all = ["parent", "ttl", "max_hold"])]
    pub(crate) lease: Option<Duration>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Returns whether a shell evaluates what these arguments print: those of `lock acquire`, in words.
pub(crate) fn is_acquire_for_a_shell(mut args: impl Iterator<Item = OsString>) -> bool {
    args.next().is_some_and(|verb| verb == "acquire") && !args.any(|arg| arg == "--json")
}

/// Releases a lock that `lock acquire` has taken, and says whether it was held all the time.
#[derive(Debug, clap::Args)]
#[command(after_long_help = RELEASE_HELP)]
pub(crate) struct Release {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,

    /// The server, which only a lock of `lock acquire --lease` needs
    #[command(flatten)]
    pub(crate) server: Server,
}

/// The process whose end ends the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The process with this number.
    Process(u32),
    /// No process.
    None,
}

impl FromStr for Parent {
    type Err = String;

    fn from_str(text: &str) -> Result<Parent, String> {
        match (text, text.parse()) {
            ("none", _) => Ok(Parent::None),
            (_, Ok(pid @ 1..=0x7fff_ffff)) => Ok(Parent::Process(pid)),
            _ => Err("it must be the pid of a process, or none".to_owned()),
        }
    }
}

const ACQUIRE_HELP: &str = "\
Prints lines for a shell, or an object with --json. The steps get
  LOCK_TOKEN          the fencing token
  LOCK_HANDLE_<NAME>  the handle, by which lock release proves that the lock is this job's: a secret of the job
  LOCK_HELD           the locks that the job holds: lock refuses them, and does not wait for them
In <NAME>, a byte that is no letter or figure is `_` and two hexadecimal digits. To hand them on to a later step, write
the lines into a file of your own, and read it there by `.`.

The keeper renews the lock. It releases the lock and ends
- when lock release asks it to,
- when the parent has ended, however that came about,
- when --max-hold is over. If it has a parent, it stays and says so when lock release asks.
No step is stopped if the lock is lost: lock release says so at the end. If a step must not run without the lock, run
it by lock run. If the keeper is killed, the lock stays held until its ttl is over.

With --lease there is no keeper. The lock ends with its lease, whatever becomes of the job, or by lock release, in any
process that has the handle and reaches the server.

A command in parentheses, in a pipeline or in $(…) may have a subshell as its parent: give --parent $$ there.

Exit status: 0 acquired, or
  75     not acquired: another client held the lock (-E sets another status)
  128+n  signal n ended the wait
  69     the server can't be reached or refuses the request
  64     bad usage, name, duration or URL; this job has acquired the lock already; or --lease on a server whose locks end
         with a connection
  71     the operating system refused something that the keeper needs
  73     the answer can't be written to stdout, has no reader or is not read; the lock is released
If it fails it prints a command that fails with this status, for eval.

Examples:
  answer=$(lock acquire --parent $$ deploy) && eval \"$answer\" || exit
  ./migrate; ./restart --token \"$LOCK_TOKEN\"
  lock release deploy || echo 'the lock was lost on the way'

  answer=$(lock acquire --lease 1h backup) && eval \"$answer\" || exit
  ./backup.sh; lock release backup";

const RELEASE_HELP: &str = "\
The handle is read from $LOCK_HANDLE_<NAME>, as lock acquire prints it. It says which lock is meant; the server must be
named only for a lock of lock acquire --lease.

Exit status: 0 if the lock was held from lock acquire until now, and is released, or
  74     it was lost in between; or the keeper does not answer, so that nothing is proven
  124    --max-hold was over
  69     --lease: the server can't be reached or refuses the request
  64     bad usage, name or URL; or there is no handle of this lock

Example:
  lock release deploy || echo 'the lock was lost on the way'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_words_of_acquire_are_for_a_shell() {
        let is = |args: &[&str]| is_acquire_for_a_shell(args.iter().map(OsString::from));
        assert!(is(&["acquire", "n"]) && is(&["acquire"]) && is(&["acquire", "--bad"]));
        assert!(!is(&["acquire", "n", "--json"]) && !is(&["release", "acquire"]) && !is(&[]));
    }

    #[test]
    fn a_parent_is_a_process_or_none() {
        assert_eq!("17".parse(), Ok(Parent::Process(17)));
        assert_eq!("none".parse(), Ok(Parent::None));
        for bad in ["0", "-1", "", "init", "4294967296", "2147483648"] {
            assert!(bad.parse::<Parent>().is_err(), "{bad}");
        }
    }
}
