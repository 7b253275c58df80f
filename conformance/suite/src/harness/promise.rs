//! The documents of a backend promise this of its servers.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease};

/// The promises that the documents of a backend make of its servers, whatever their settings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The owner of a lease.
    pub lease: Lease,
    /// In which order waiters are served.
    pub fair: Fair,
    /// The assumptions under which tokens rise.
    pub rises: Rises,
    /// The server says which it is, or need not.
    pub identity: Identity,
}

impl Promise {
    /// Returns whether what a server says of itself agrees with it. Its identity is not compared, since a client may be open
    /// before it has learned that.
    pub(crate) fn is_kept_by(&self, info: &Info) -> bool {
        (self.lease, self.fair) == (info.lease, info.fair) && self.rises.is_kept_by(&info.fencing)
    }
}

/// A server says which it is in [`Info::identity`], or need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It does, at the latest when a client has met all servers that it is made of.
    Told,
    /// Some servers of the backend do not.
    NotPromised,
}

/// The assumptions of [`Fencing`] under which tokens rise, without its words for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rises {
    /// As [`Fencing::Always`].
    Always,
    /// As [`Fencing::WhileDataIsKept`].
    WhileDataIsKept {
        /// The clock may be set back by this much at least.
        clock_step: Duration,
    },
    /// As [`Fencing::WhileAMajorityKeepsItsData`].
    WhileAMajorityKeepsItsData {
        /// The clocks may be set back by this much at least.
        clock_step: Duration,
    },
    /// As [`Fencing::UntilAMajorityLosesItsData`].
    UntilAMajorityLosesItsData,
}

impl Rises {
    fn is_kept_by(self, fencing: &Fencing) -> bool {
        match (self, fencing) {
            (Rises::Always, Fencing::Always)
            | (Rises::UntilAMajorityLosesItsData, Fencing::UntilAMajorityLosesItsData { .. }) => true,
            (
                Rises::WhileDataIsKept { clock_step: promised },
                Fencing::WhileDataIsKept { clock_step, .. },
            )
            | (
                Rises::WhileAMajorityKeepsItsData { clock_step: promised },
                Fencing::WhileAMajorityKeepsItsData { clock_step, .. },
            ) => *clock_step >= promised,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn info(fencing: Fencing, lease: Lease) -> Info {
        Info::new("a backend", "a server", fencing, lease, HOUR..=HOUR * 2)
    }

    fn promise(lease: Lease, fair: Fair, rises: Rises) -> Promise {
        Promise { lease, fair, rises, identity: Identity::NotPromised }
    }

    fn while_data_is_kept(clock_step: Duration) -> Fencing {
        Fencing::WhileDataIsKept { clock_step, kept: "a test".to_owned() }
    }

    fn while_a_majority_keeps_its_data(clock_step: Duration) -> Fencing {
        Fencing::WhileAMajorityKeepsItsData { clock_step, and: "a test".to_owned() }
    }

    fn until_a_majority_loses_its_data() -> Fencing {
        Fencing::UntilAMajorityLosesItsData { and: "a test".to_owned() }
    }

    #[test]
    fn a_server_keeps_only_its_own_kinds_promise() {
        let kinds = [
            (Rises::Always, Fencing::Always),
            (Rises::WhileDataIsKept { clock_step: HOUR }, while_data_is_kept(HOUR)),
            (Rises::WhileAMajorityKeepsItsData { clock_step: HOUR }, while_a_majority_keeps_its_data(HOUR)),
            (Rises::UntilAMajorityLosesItsData, until_a_majority_loses_its_data()),
        ];
        for (promised, (rises, _)) in kinds.iter().enumerate() {
            let promise = promise(Lease::Lock, Fair::No, *rises);
            for (said, (_, fencing)) in kinds.iter().enumerate() {
                let kept = promise.is_kept_by(&info(fencing.clone(), Lease::Lock));
                assert_eq!(kept, promised == said, "{promise:?}, {fencing:?}");
            }
        }
    }

    #[test]
    fn a_clock_goes_back_by_no_less_than_promised() {
        let one = Rises::WhileDataIsKept { clock_step: HOUR };
        assert!(one.is_kept_by(&while_data_is_kept(HOUR * 2)));
        assert!(!one.is_kept_by(&while_data_is_kept(HOUR / 2)));
        let majority = Rises::WhileAMajorityKeepsItsData { clock_step: HOUR };
        assert!(majority.is_kept_by(&while_a_majority_keeps_its_data(HOUR * 2)));
        assert!(!majority.is_kept_by(&while_a_majority_keeps_its_data(HOUR / 2)));
    }

    #[test]
    fn another_lease_or_another_order_breaks_the_promise() {
        let promise = promise(Lease::Session, Fair::PerProcess, Rises::Always);
        let mut info = info(Fencing::Always, Lease::Session);
        assert!(!promise.is_kept_by(&info), "waiters are served in no order");
        info.fair = Fair::PerProcess;
        assert!(promise.is_kept_by(&info));
        info.lease = Lease::Lock;
        assert!(!promise.is_kept_by(&info));
    }
}
