//! The guarantees of a SQLite file.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fencing, Lease, Lists, Takeovers};

use super::file::File;
use super::time::CLOCK_DESCRIPTION;
use crate::sweep::IDLE_BEFORE_DELETE;

const KEPT: &str = "each grant is on the disk before it counts; after the file was lost or restored, tokens rise unless \
     the wall clock is behind the last one";

const DATA_LOSS: &str = "if the file or its -wal is deleted or replaced, every lock is free; holders are told at their \
     next renewal";

pub(super) fn info(file: &File) -> Info {
    let mut info = Info::new(
        "sqlite",
        file.path().display().to_string(),
        Fencing::WhileDataIsKept { clock_step: IDLE_BEFORE_DELETE, kept: KEPT.to_owned() },
        Lease::Lock,
        Duration::from_millis(50)..=Duration::from_secs(365 * 24 * 3600),
    );
    info.lists = Lists::Held;
    info.takeovers = Takeovers::InOneRequest;
    info.clock = CLOCK_DESCRIPTION;
    info.data_loss = DATA_LOSS.to_owned();
    info.requests_per_hand_over = 3;
    info
}
