//! How the participants of a case are compared.

use super::report::Figures;
use super::workload::Case;
use crate::rounds::Pace;
use crate::subjects::Kind;
use crate::workloads::names;

/// With whom, by what, and in which rhythm the participants of a case are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// The participant that the others are compared with.
    pub(super) base: &'static str,
    pub(super) figures: Figures,
    pub(super) pace: Pace,
}

/// The library's renewals while no client waits.
pub(super) const ALONE: &str = "alone";

impl Comparison {
    pub(super) fn of(case: Case) -> Comparison {
        let floor = Kind::Floor.as_str();
        let (base, figures, pace) = match case {
            Case::OwnNames { tasks: 512.. } => (floor, Figures::RateAndLatencies, Pace::CROWDED),
            Case::OneName { contenders: 64.., .. } => (floor, Figures::Rate, Pace::CROWDED),
            Case::OwnNames { .. } | Case::OpenLoop { .. } | Case::HandOver => {
                (floor, Figures::RateAndLatencies, Pace::QUICK)
            }
            Case::OneName { .. } => (floor, Figures::Rate, Pace::QUICK),
            Case::Names { .. } => (floor, Figures::RateAndLatencies, Pace::of_rounds(names::ROUNDS)),
            // The system counts CPU time in hundredths of a second.
            Case::ServerCpu { .. } => (floor, Figures::RateAndLatencies, Pace::PROGRAMS),
            Case::Delay
            | Case::Waiting { .. }
            | Case::Recovery
            | Case::Failover
            | Case::Loss
            | Case::Held { .. }
            | Case::Claims => (floor, Figures::RateAndLatencies, Pace::WHOLE),
            Case::OneLost => (Kind::Ours.as_str(), Figures::RateAndLatencies, Pace::QUICK),
            Case::Renewal => (ALONE, Figures::RateAndLatencies, Pace::SLOW),
            Case::Commits => (Kind::NeverNotifies.as_str(), Figures::RateAndLatencies, Pace::SLOW),
        };
        Comparison { base, figures, pace }
    }
}
