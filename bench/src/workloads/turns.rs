//! The turns of one contender.

/// What one contender did in a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// How many acquisitions were granted within the slice.
    pub(super) in_time: u64,
    /// How long each acquisition waited, in nanoseconds, including the one that was under way at the end.
    pub(super) waits: Vec<u64>,
    /// Why it gave up before the end.
    pub(super) error: Option<String>,
}
