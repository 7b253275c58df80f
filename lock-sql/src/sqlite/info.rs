//! What a SQLite file guarantees.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease, Wakes};

use super::file::File;
use super::time::CLOCK_DESCRIPTION;
use crate::sweep::IDLE_BEFORE_DELETE;

pub(super) fn info(file: &File) -> Info {
    Info {
        backend: "sqlite",
        server: file.path().display().to_string(),
        identity: None,
        fencing: Fencing::WhileDataIsKept {
            clock_step: IDLE_BEFORE_DELETE,
            kept: "each grant is on the disk before it counts; after the file was lost or restored, tokens rise \
                   unless the wall clock is behind the last one"
                .to_owned(),
        },
        lease: Lease::Lock,
        fair: Fair::No,
        wakes: Wakes::Polled,
        min_ttl: Duration::from_millis(50),
        max_ttl: Duration::from_secs(365 * 24 * 3600),
        clock: CLOCK_DESCRIPTION,
        data_loss: "if the file or its -wal is deleted or replaced, every lock is free; holders are told at their next \
                    renewal"
            .to_owned(),
        requests_per_hand_over: 3,
    }
}
