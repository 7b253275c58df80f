//! How the participants of a workload are compared.

use crate::rounds::Pace;
use crate::subjects::Kind;
use crate::tally::By;
use crate::workload::Workload;

/// The figure by which participants are compared, and with which participant; with none, where a measurement has a
/// ratio of its own.
#[derive(Clone, Copy)]
pub(super) struct Comparison {
    pub(super) by: By,
    pub(super) base: Option<&'static str>,
    /// With what the p99s are compared.
    pub(super) base_of_p99: Option<&'static str>,
    pub(super) pace: Pace,
}

/// The library, uncontended.
pub(super) const UNCONTENDED: &str = "uncontended";
/// The library's renewals while no client waits.
pub(super) const ALONE: &str = "alone";

impl Comparison {
    pub(super) fn of(workload: Workload) -> Comparison {
        let floor = Some(Kind::Floor.as_str());
        let (by, base, pace) = match workload {
            Workload::Uncontended | Workload::ManyNames => (By::Rate, floor, Pace::QUICK),
            Workload::OneName => (By::Rate, Some(UNCONTENDED), Pace::QUICK),
            Workload::OneLost => (By::P50, Some(Kind::Ours.as_str()), Pace::QUICK),
            Workload::HandOver => (By::P50, floor, Pace::QUICK),
            Workload::Processes => (By::P50, None, Pace::STARVED),
            Workload::Delay | Workload::Waiting | Workload::Held | Workload::Crowd => {
                (By::P50, None, Pace::WHOLE)
            }
            Workload::Renewal => (By::P50, Some(ALONE), Pace::SLOW),
            Workload::Commits => (By::Rate, Some(Kind::NeverNotifies.as_str()), Pace::SLOW),
            Workload::FirstLock => (By::P50, floor, Pace::PROGRAMS),
        };
        // A cycle that waits for seven others is another thing than one that waits for none.
        let base_of_p99 = base.filter(|_| workload != Workload::OneName);
        Comparison { by, base, base_of_p99, pace }
    }
}
