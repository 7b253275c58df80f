//! Cases for any two clients that use the same locks.

mod queue;
mod storm;
mod turns;

pub use queue::one_holds_and_the_other_waits;
pub(crate) use queue::the_one_between_goes;
pub use storm::{Storm, a_storm_of_both, with_a_lock_each_they_miscount};
pub use turns::the_waiter_has_it_next;
pub(crate) use turns::{
    a_killed_holder_keeps_it_for_its_lease, a_late_release_releases_nothing, names_are_the_same_for_both,
    the_waiter_looks_at_the_leases_end, tokens_rise_in_one_order,
};

use super::contender::Contender;
use super::foreign::Foreign;
use super::ours::Ours;

/// Checks that an attempt of a client that can make one is refused.
async fn is_refused(contender: &mut dyn Contender, name: &str) {
    let answer = contender.attempt(name).await;
    assert_ne!(answer, Some(true), "{contender} got at once a lock that is held: {name}");
}

/// Takes a whole turn on another lock. By its end, a client that does not wait has what it asked for.
async fn waits_for_a_turn(contender: &mut dyn Contender, looker: &mut dyn Foreign) {
    looker.acquire("another").await;
    looker.release("another").await;
    assert!(!contender.has_it(), "{contender} has a lock that another client holds");
}
