//! The arguments that `hold` and `acquire` have in common.

use std::time::Duration;

use onelock::{Name, parse_duration};

use super::{Ask, Voice};

/// The lock that is kept for another program, and its terms.
#[derive(Debug, clap::Args)]
pub(crate) struct Terms {
    /// The lock's name
    #[arg(value_parser = |name: &str| Name::new(name))]
    pub(crate) name: Name,

    #[command(flatten)]
    pub(crate) ask: Ask,

    /// How long the lock is held at most; then it is released
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_hold: Option<Duration>,

    /// How the holder is shown to other clients; by default user@host, pid and the command of lock
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Say nothing on stderr while lock waits, and nothing if another client holds the lock
    #[arg(short, long)]
    quiet: bool,
}

impl Terms {
    pub(crate) fn voice(&self) -> Voice {
        if self.quiet { Voice::Quiet } else { Voice::Usual }
    }
}
