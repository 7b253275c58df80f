//! `lock acquire` and `lock release`: a lock for a job of several steps. A process in the background, the keeper, holds
//! it. With `--lease`, no process does.
//!
//! ```text
//! sh job.sh                     the parent: when it ends, the keeper releases the lock
//!   ├ lock acquire NAME         starts the keeper, waits for its grant, prints the handle, and ends
//!   │   └ lock __keep           the keeper: a session of its own, with nothing of the job open
//!   └ lock release NAME         asks the keeper of the handle over its socket, and ends with what it says
//! ```
//!
//! Until `lock acquire` has printed its answer, the keeper ends with it: a call that was killed leaves no lock behind.

use crate::exit::Exit;
use crate::{args, print};

#[cfg(unix)]
mod acquire;
#[cfg(unix)]
mod answer;
#[cfg(unix)]
mod handle;
#[cfg(unix)]
mod hold;
#[cfg(unix)]
mod lease;
#[cfg(unix)]
mod order;
#[cfg(unix)]
mod parent;
#[cfg(unix)]
mod release;
#[cfg(unix)]
mod socket;
#[cfg(not(unix))]
mod unsupported;

#[cfg(unix)]
pub(crate) use self::hold::{KEEP, keep};

/// Makes a shell see the failure of `lock acquire`: without a word of it on stdout, `eval "$(lock acquire …)"` would
/// succeed, and the steps would run without the lock.
pub(crate) fn fail_under_eval(exit: Exit) {
    if exit.code() != 0 && args::is_acquire_for_a_shell(std::env::args_os().skip(1)) {
        print::last(format!("(exit {})", exit.code()));
    }
}
