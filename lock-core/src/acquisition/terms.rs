//! The terms of an acquisition.

use std::time::Duration;

use crate::driver::Mode;
use crate::name::Name;
use crate::owner::Label;
use crate::period::Period;

/// The terms of an acquisition.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) label: Label,
    /// The work under the lock is done once in each slot of this period.
    pub(crate) period: Option<Period>,
}
