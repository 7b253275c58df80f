//! The arguments of `lock hold`.

use super::Terms;

/// Takes a lock and keeps it for the program that started this command, until its stdin is closed or a signal comes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) terms: Terms,

    /// Print JSON objects, one on each line
    #[arg(long)]
    pub(crate) json: bool,
}

const HELP: &str = "\
Lines on stdout, which with --json are objects with the same fields and the lock's name:
  held token=N valid_ms=N   the lock is acquired, and certain for so long without a renewal
  trouble error=TEXT        a renewal failed and is repeated; the lock is still held; not repeated if the text is equal
  renewed                   the first renewal that succeeded after such trouble
  lost reason=WORD          the lock is lost, and the command ends: stop what you do under it
  released                  the lock was held until its release
If stdout is not read, the lock is renewed all the same; but if held can't be told within 5 s, the lock is released.
While the lock is waited for, stderr says so (--quiet). With --json, stdout says it, in objects of the event waiting.

Exit status:
  0      stdin was closed, or a signal came, and the lock was held until its release
  74     the lock was lost
  124    --max-hold was over
  128+n  signal n ended the wait for the lock
  75     not acquired: another client held the lock (-E sets another status)
  69     the server can't be reached or refuses the request
  73     the lock was acquired, but stdout can't be written, has no reader or is not read; it is released
  64     bad usage, name, duration or URL; or stdin was closed before the lock was acquired

The lock is held at most as long as the program that started this command lives, because its end of the pipe is closed
with it. Give the command a pipe as stdin: a shell without job control starts a command with `&` with an empty stdin.
Processes that the program has started go on without the lock. If they must not, use lock run.

Examples:
  coproc lock hold deploy; read -r held token valid <&\"${COPROC[0]}\"

  (sleep 60) | lock hold deploy --json";
