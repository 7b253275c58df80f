//! The workloads.

pub(crate) mod contenders;
pub(crate) mod cycles;
pub(crate) mod delay;
pub(crate) mod failover;
pub(crate) mod hand_over;
pub(crate) mod held;
mod messages;
mod other_process;
pub(crate) mod recovery;
pub(crate) mod side;
