//! The cases, by topic. They test what the contract and `docs/semantics.md` promise.

mod blocking;
mod breaking;
mod busy;
mod cancellation;
mod clock;
mod contract;
mod exclusion;
mod failure;
mod fencing;
mod growth;
#[cfg(unix)]
mod inherited;
mod lease;
mod listing;
mod liveness;
mod model;
mod names;
mod network;
mod once;
mod outage;
mod polling;
mod processes;
mod reentrancy;
mod several;
mod standstill;
mod takeover;
mod waiting;
mod work;

use crate::case::Case;

pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    [
        contract::CASES,
        exclusion::CASES,
        names::CASES,
        growth::CASES,
        fencing::CASES,
        waiting::CASES,
        polling::CASES,
        lease::CASES,
        work::CASES,
        model::CASES,
        cancellation::CASES,
        breaking::CASES,
        busy::CASES,
        listing::CASES,
        reentrancy::CASES,
        several::CASES,
        standstill::CASES,
        takeover::CASES,
        blocking::CASES,
        clock::CASES,
        failure::CASES,
        network::CASES,
        outage::CASES,
        processes::CASES,
        liveness::CASES,
        once::CASES,
        #[cfg(unix)]
        inherited::CASES,
    ]
    .into_iter()
    .flatten()
}
