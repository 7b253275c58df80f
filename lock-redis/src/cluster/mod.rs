//! Locks on a Redis Cluster. The keys of a lock are in one slot, so a lock is on one member at a time; which one that is,
//! members tell when they are asked about a slot that is not theirs.

mod claim;
mod driver;
mod hash_slots;
mod members;

pub(crate) use driver::ClusterDriver;
