//! The terms that `hold` and the keeper of `acquire` share.

use std::time::Duration;

use onelock::{Client, Label, Lock, LossReason, Options};

use crate::acquisition::{Acquisition, Notice};
use crate::args::Terms;
use crate::exit::{Exit, Failure, TIMED_OUT};

impl Terms {
    /// Starts the wait.
    ///
    /// # Errors
    ///
    /// `Usage` for terms that the core does not check.
    pub(crate) fn begin(&self, notice: Notice) -> Result<Acquisition<'_>, Failure> {
        match self.max_hold {
            Some(Duration::ZERO) => Err(Failure::new(Exit::Usage, "--max-hold must not be zero")),
            _ => Ok(Acquisition::begin(&self.name, &self.ask, notice)),
        }
    }

    /// Returns the options of the client. Without a label, the holder is shown as this `command` of `lock`.
    pub(crate) fn options(&self, command: &str) -> Options {
        let label = self.label.clone().unwrap_or_else(|| Label::of_program(command.as_ref()).to_string());
        Options::default().label(label)
    }

    /// Builds the lock. `wait` is what is left of the wait.
    pub(crate) fn lock(&self, client: &Client, wait: Option<Duration>) -> Result<Lock, Failure> {
        let mut lock = self.ask.lock(client, &self.name, wait);
        if let Some(most) = self.max_hold {
            lock = lock.max_hold(most);
        }
        Ok(lock.build()?)
    }

    /// Returns how a call ends whose lock was lost.
    pub(crate) fn lost(&self, reason: LossReason) -> Failure {
        let name = &self.name;
        match reason {
            LossReason::MaxHold => Failure::new(
                Exit::HeldForLong(TIMED_OUT),
                format!("{name:?} was held for as long as --max-hold allows, and is released"),
            ),
            _ => Failure::new(Exit::Lost, format!("{name:?} was lost: {reason}")),
        }
    }
}
