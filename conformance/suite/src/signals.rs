//! Signals that are ignored from the start of a process, as `nohup` and a shell's `&` arrange it.

use std::sync::Once;

use tokio::signal::unix::{SignalKind, signal};

/// Lets every program that is started from here get signals, whatever this program was told to ignore.
///
/// A child process inherits that a signal is ignored, and `lock` keeps it ignored for its command. It does not inherit
/// a handler. So this program installs handlers for the signals that it ignores; they do nothing.
pub(crate) fn pass_on() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ignored = ignored();
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.expect("the machine has room for a runtime");
        let _inside = runtime.enter();
        for kind in kinds.into_iter().filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) != 0) {
            // The handler stays when no task listens any more.
            drop(signal(kind).expect("every program may listen to these"));
        }
    });
}

/// Returns one bit for each ignored signal, as Linux tells them (proc(5)); elsewhere none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
