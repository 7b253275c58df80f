//! The workloads.

pub(crate) mod commits;
pub(crate) mod contenders;
pub(crate) mod crowd;
pub(crate) mod cycles;
pub(crate) mod delay;
pub(crate) mod driven;
pub(crate) mod failover;
pub(crate) mod first_lock;
pub(crate) mod hand_over;
pub(crate) mod held;
mod loops;
pub(crate) mod loss;
pub(crate) mod metered;
pub(crate) mod names;
pub(crate) mod open_loop;
mod orders;
mod other_process;
pub(crate) mod processes;
mod queues;
pub(crate) mod raw_run;
pub(crate) mod recovery;
pub(crate) mod renewal;
mod replies;
pub(crate) mod side;
pub(crate) mod tolerant;
mod turns;
pub(crate) mod waiting;
