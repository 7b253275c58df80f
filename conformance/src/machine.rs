//! Whether the machine itself kept time while a test ran: what came too late on one that stood still meanwhile, as
//! virtual ones do, says nothing about a backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// With six programs that compute all the time on two processors timers were 18 ms late at most.
const LATE: Duration = Duration::from_millis(30);
/// Of all the processors' time, in percent.
const STOLEN: u64 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Watches the machine until it is asked.
#[derive(Debug)]
pub(crate) struct Watch {
    latest: Arc<AtomicU64>,
    times: Option<Times>,
    /// Its end ends the thread.
    _ends: Sender<()>,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        let (ends, ended) = channel();
        let latest = Arc::new(AtomicU64::new(0));
        let watch = Watch { latest: latest.clone(), times: Times::now(), _ends: ends };
        thread::spawn(move || {
            let mut before = Instant::now();
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                let late = before.elapsed().saturating_sub(PAUSE);
                latest.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
                before = Instant::now();
            }
        });
        watch
    }

    /// What it did instead of serving the test, if it did.
    pub(crate) fn stood_still(&self) -> Option<String> {
        let late = Duration::from_micros(self.latest.load(Ordering::Relaxed));
        if late >= LATE {
            return Some(format!("a timer was {late:.0?} late"));
        }
        let stolen = Times::now()?.stolen_since(self.times?);
        (stolen >= STOLEN).then(|| format!("{stolen} % of its processors' time was another machine's"))
    }
}

/// The processors' time since the machine was started, in ticks: see proc_stat(5). Linux only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    all: u64,
    stolen: u64,
}

impl Times {
    fn now() -> Option<Times> {
        Times::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu user nice system idle iowait irq softirq steal …`; what follows counts a second time.
    fn parse(stat: &str) -> Option<Times> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = ticks.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Times { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// In percent.
    fn stolen_since(self, before: Times) -> u64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) * 100 / all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_read() {
        let before = Times::parse("cpu  100 0 50 800 10 5 5 30 7 7\ncpu0 1 2 3\n").expect("well-formed");
        assert_eq!(before, Times { all: 1000, stolen: 30 });
        assert_eq!(Times { all: 1200, stolen: 60 }.stolen_since(before), 15);
        assert_eq!(before.stolen_since(before), 0);
        assert_eq!(Times::parse("cpu 1 2"), None);
    }

    #[test]
    fn a_watch_that_was_kept_from_running_says_so() {
        let watch = Watch::start();
        watch.latest.fetch_max(40_000, Ordering::Relaxed);
        assert_eq!(watch.stood_still().as_deref(), Some("a timer was 40ms late"));
    }
}
