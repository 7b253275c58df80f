//! The cases, by topic. They test what the contract and `docs/semantics.md` promise.

mod blocking;
mod breaking;
mod cancellation;
mod clock;
mod contract;
mod exclusion;
mod failure;
mod fencing;
mod growth;
#[cfg(all(unix, feature = "servers"))]
mod inherited;
mod lease;
#[cfg(feature = "servers")]
mod liveness;
mod model;
mod names;
mod network;
mod outage;
mod polling;
#[cfg(feature = "servers")]
mod processes;
mod reentrancy;
mod several;
mod waiting;
mod work;

use crate::runner::Case;

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
        reentrancy::CASES,
        several::CASES,
        blocking::CASES,
        clock::CASES,
        failure::CASES,
        network::CASES,
        outage::CASES,
        #[cfg(feature = "servers")]
        processes::CASES,
        #[cfg(feature = "servers")]
        liveness::CASES,
        #[cfg(all(unix, feature = "servers"))]
        inherited::CASES,
    ]
    .into_iter()
    .flatten()
}

/// `case!(function, [B1, B2]; needs [Forget]; load Heavy; if |info| …)`; all but the first two may be left out.
macro_rules! case {
    ($function:ident, [$($class:ident),*] $(; needs [$($need:ident),*])? $(; load $load:ident)? $(; if $applies:expr)?) => {
        $crate::runner::Case {
            topic: {
                const PATH: &str = module_path!();
                PATH.split_at("lock_conformance::cases::".len()).1
            },
            name: stringify!($function),
            classes: &[$(stringify!($class)),*],
            needs: &[$($($crate::harness::Need::$need),*)?],
            applies: {
                #[allow(unused, reason = "replaced where a case applies to some backends only")]
                let applies: fn(&lock_core::Info) -> bool = |_| true;
                $(let applies: fn(&lock_core::Info) -> bool = $applies;)?
                applies
            },
            load: {
                #[allow(unused, reason = "replaced where a case is not light")]
                let load = $crate::judging::Load::Light;
                $(let load = $crate::judging::Load::$load;)?
                load
            },
            run: |setting| Box::pin($function(setting)),
        }
    };
}
pub(crate) use case;
