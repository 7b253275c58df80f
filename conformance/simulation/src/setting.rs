//! The setting that all histories have in common: the numbers of machines and locks, and the times that things take.

use std::time::Duration;

use super::timeline::Micros;

/// The number of client processes that run at any time.
pub(super) const CLIENTS: usize = 4;
/// The number of machines: one for each process, one for each process that replaces a killed one, and then one for each
/// server.
pub(super) const MACHINES: usize = SERVER + MOST_SERVERS;
/// The machine of the first server.
pub(super) const SERVER: usize = 2 * CLIENTS;
/// The largest number of servers, in the family in which a majority of several servers decides.
pub(super) const MOST_SERVERS: usize = 5;
/// The names of the locks. A history uses at least the first one.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];
/// The ttl that most callers ask for; the durations of faults are derived from it. Some callers ask for a shorter ttl,
/// some for a longer one.
pub(super) const TTL: Duration = Duration::from_millis(600);
/// The same in microseconds.
pub(super) const TTL_MICROS: Micros = TTL.as_micros() as Micros;
/// The longest ttl that a caller asks for.
pub(super) const LONGEST_TTL: Duration = Duration::from_secs(1);
/// The longest time that a message takes, unless it is late.
pub(super) const IN_TIME: Micros = 1_500;
