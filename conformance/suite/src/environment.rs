//! The environment variables of the suite.
//!
//! Plain data without dependencies. `xtask` includes this same file, so that what `cargo xtask test` sets and what the
//! suite reads cannot differ.

/// The environment variable that makes cases with sizes run in full.
pub const FULL: &str = "LOCK_TEST_FULL";

/// The environment variable with the file in which the suite notes what it ran on, for `cargo xtask test`.
pub const RECORD: &str = "LOCK_TEST_RECORD";

/// The environment variable with the file by which test programs that run at the same time take turns, for
/// `cargo xtask test`.
pub const MACHINE: &str = "LOCK_TEST_MACHINE";
