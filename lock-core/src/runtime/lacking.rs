//! Features that a tokio runtime was built without. tokio reports one by a panic, where it is first needed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::events::panic_message;

/// Returns an error if the current runtime has no timers, and `clock` needs them.
pub(super) fn must_have_timers(clock: &Clock) -> Result<()> {
    // tokio looks for its timers when one is made.
    let probe = catch_unwind(AssertUnwindSafe(|| clock.probe()));
    probe.map_err(|panic| lacking(&*panic).unwrap_or_else(|| without("timers")))
}

/// Returns the error for a panic of tokio which says that the runtime was built without something.
pub(crate) fn lacking(panic: &(dyn Any + Send)) -> Option<Error> {
    let said = panic_message(panic);
    let is_said = |words: &str| said.contains(words);
    match () {
        () if is_said("timers are disabled") => Some(without("timers")),
        () if is_said("IO is disabled") => Some(without("I/O")),
        () => None,
    }
}

fn without(what: &str) -> Error {
    Error::invalid(format!(
        "this tokio runtime was built without {what}: build it with enable_all, or open the client with a thread of its \
         own (Options::dedicated)"
    ))
}
