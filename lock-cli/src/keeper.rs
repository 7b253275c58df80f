//! `lock acquire` and `lock release`: a lock for a job of several steps. A process in the background, the keeper, holds
//! it.
//!
//! ```text
//! sh job.sh                     the parent: when it ends, the keeper releases the lock
//!   ├ lock acquire NAME         starts the keeper, waits for its grant, prints the handle, and ends
//!   │   └ lock __keep           the keeper: a session of its own, with nothing of the job open
//!   └ lock release NAME         asks the keeper over its socket, and ends with what it says
//! ```
//!
//! Until `lock acquire` has printed its answer, the keeper ends with it: a call that was killed leaves no lock behind.

#[cfg(unix)]
mod acquire;
#[cfg(unix)]
mod hold;
#[cfg(unix)]
mod order;
#[cfg(unix)]
mod parent;
#[cfg(unix)]
mod release;
#[cfg(unix)]
mod rendezvous;
#[cfg(not(unix))]
mod unsupported;

#[cfg(unix)]
pub(crate) use self::hold::{KEEP, keep};
