//! The arguments of `lock acquire` and `lock release`.

use std::path::PathBuf;
use std::str::FromStr;

use onelock::Name;

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

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Releases a lock that `lock acquire` has taken, and says whether it was held all the time.
#[derive(Debug, clap::Args)]
#[command(after_long_help = RELEASE_HELP)]
pub(crate) struct Release {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,

    #[command(flatten)]
    pub(crate) server: Server,

    /// The process that was the parent for `lock acquire`; by default the process that has started this command
    #[arg(long, value_name = "PID")]
    pub(crate) parent: Option<Parent>,

    /// The keeper, as printed by `lock acquire`; by default $LOCK_KEEPER, if that is a keeper of this lock
    #[arg(long, value_name = "PATH", conflicts_with = "parent")]
    pub(crate) keeper: Option<PathBuf>,
}

/// The process whose end ends the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// This one.
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
Prints two lines for a shell, or an object with --json:
  LOCK_TOKEN=N       the fencing token
  LOCK_KEEPER=PATH   the keeper, for lock release

The keeper renews the lock. It releases the lock and ends
- when lock release asks it to,
- when the parent has ended, however that came about,
- when --max-hold is over. If it has a parent, it stays and says so when lock release asks.
No step is stopped if the lock is lost: lock release says so at the end. If a step must not run without the lock, run
it by lock run. If the keeper is killed, the lock stays held until its ttl is over.

A command in parentheses, in a pipeline or in $(…) may have a subshell as its parent: give --parent $$ there.

Exit status: 0 acquired, or
  75     not acquired: another client held the lock (-E sets another status)
  128+n  signal n ended the wait
  69     the server can't be reached or refuses the request
  64     bad usage, name, duration or URL; or this lock was acquired for the same parent already
  71     the operating system refused something that the keeper needs

Examples:
  eval \"$(lock acquire --parent $$ deploy)\" || exit
  ./migrate; ./restart --token \"$LOCK_TOKEN\"
  lock release --parent $$ deploy || echo 'the lock was lost on the way'";

const RELEASE_HELP: &str = "\
The keeper is found by --keeper, by $LOCK_KEEPER if that is a keeper of this lock, or by the lock's name and server and
the parent.

Exit status: 0 if the lock was held from lock acquire until now, and is released, or
  74     it was lost in between; or no keeper answers, so that nothing is proven
  124    --max-hold was over
  64     bad usage, name or URL; or several keepers match";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_a_process_or_none() {
        assert_eq!("17".parse(), Ok(Parent::Process(17)));
        assert_eq!("none".parse(), Ok(Parent::None));
        for bad in ["0", "-1", "", "init", "4294967296", "2147483648"] {
            assert!(bad.parse::<Parent>().is_err(), "{bad}");
        }
    }
}
