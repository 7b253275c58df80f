//! Differences between operating systems: the clock that counts suspend, the names of host and user.

use std::time::Duration;

/// Returns the time since an arbitrary origin. Monotonic; counts the time in which the machine was suspended.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn monotonic() -> Duration {
    elapsed(rustix::time::ClockId::Boottime)
}

/// Apple's `CLOCK_MONOTONIC` goes on while the machine sleeps (clock_gettime(3)).
#[cfg(target_vendor = "apple")]
pub(crate) fn monotonic() -> Duration {
    elapsed(rustix::time::ClockId::Monotonic)
}

/// Windows' `Instant` goes on while the machine sleeps (QueryPerformanceCounter). On other systems it may not: there a
/// lease can end unnoticed during a suspend, until the next renewal.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[allow(clippy::disallowed_methods, reason = "this is where the core's clock comes from")]
pub(crate) fn monotonic() -> Duration {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn elapsed(clock: rustix::time::ClockId) -> Duration {
    let t = rustix::time::clock_gettime(clock);
    // Both fields of a monotonic clock are never negative, and its nanoseconds stay below a second.
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

/// Returns the id of this process. A fork has another one, and everything that the first process had except its
/// threads.
#[cfg(unix)]
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// Processes don't fork here.
#[cfg(not(unix))]
pub(crate) fn process() -> u32 {
    0
}

/// Returns this machine's name, `?` if it has none.
#[cfg(unix)]
pub(crate) fn host() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if host.is_empty() { "?".into() } else { host }
}

/// Returns this machine's name, `?` if it has none.
#[cfg(not(unix))]
pub(crate) fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "?".into())
}

/// Returns the name of the user of this process as the environment has it; otherwise the user's number.
pub(crate) fn user() -> String {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|v| std::env::var(v).ok()).unwrap_or_else(user_number)
}

#[cfg(unix)]
fn user_number() -> String {
    format!("uid{}", rustix::process::getuid())
}

#[cfg(not(unix))]
fn user_number() -> String {
    "?".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "this is the clock that ours must differ from")]
    fn time_is_not_the_wall_clocks() {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let ours = monotonic();
        // A wall clock may be set, and deadlines would move with it. No machine has been up since 1970.
        assert!(
            ours + Duration::from_secs(24 * 3600) < wall,
            "{ours:?} since the origin, {wall:?} since 1970"
        );
        assert!(monotonic() >= ours);
    }
}
