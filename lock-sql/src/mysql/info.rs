//! The guarantees of a MySQL or MariaDB server.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fencing, Lease, Lists, Takeovers};

use super::facts::{Facts, Flush, Writable};
use crate::sweep::IDLE_BEFORE_DELETE;

const CLOCK: &str = "the server's wall clock. Two holders are possible for as long a time as it is set forward (by \
    hand, by an NTP step, by a virtual machine's resume), or as a promoted replica's clock is ahead of its primary's. \
    Its rate and the client's must agree within 1 %";

pub(super) fn describe(server: &str, facts: &Facts) -> Info {
    let losses = losses(facts);
    let mut info = Info::new(
        "mysql",
        server,
        Fencing::WhileDataIsKept {
            clock_step: IDLE_BEFORE_DELETE,
            kept: format!(
                "{losses}; after a loss of data, or the promotion of a replica that lags, tokens rise only if the new \
                 clock is not behind the last token; they do not rise between a primary and the replica that replaced \
                 it while both take writes"
            ),
        },
        Lease::Lock,
        Duration::from_millis(50)..=Duration::from_secs(365 * 24 * 3600),
    );
    info.lists = Lists::Held;
    info.takeovers = Takeovers::InOneRequest;
    info.clock = CLOCK;
    info.data_loss = format!(
        "a lock that the server has lost can be granted again while its holder still relies on it, and only the \
         token tells the two holders apart: {losses}; a promoted replica lacks the grants that did not reach it"
    );
    info.requests_per_hand_over = 3;
    info
}

fn losses(facts: &Facts) -> String {
    let flush = match facts.flush {
        Flush::AtCommit => "each grant is on the disk before it is answered",
        Flush::Later => {
            "a crash loses the grants of about the last second (innodb_flush_log_at_trx_commit is not 1)"
        }
    };
    match facts.writable {
        Writable::Yes => flush.to_owned(),
        Writable::No => format!("{flush}; read_only is set: a replica, or a primary that steps down"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_a_crash_loses() {
        let facts = Facts { flush: Flush::AtCommit, ..Facts::default() };
        assert!(describe("h", &facts).data_loss.contains("on the disk before"));
        assert!(describe("h", &Facts::default()).fencing.to_string().contains("the last second"));
        let facts = Facts { writable: Writable::No, ..Facts::default() };
        assert!(describe("h", &facts).data_loss.contains("read_only"));
    }
}
