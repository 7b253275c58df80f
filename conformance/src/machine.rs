//! Whether the machine itself kept time while a test ran: what came too late on one that stood still meanwhile, as
//! virtual ones do, says nothing about a backend.

use std::fs::File;
use std::io::Write;
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
/// Of the shortest limits of cases, which are a hundred milliseconds and more, a few writes take all.
const SLOW: Duration = Duration::from_millis(30);
/// A disk is asked so seldom that servers don't notice.
const SELDOM: Duration = Duration::from_millis(100);

/// Watches the machine until it is asked.
#[derive(Debug)]
pub(crate) struct Watch {
    latest: Longest,
    /// Of writing to where servers write.
    slowest: Longest,
    times: Option<Times>,
    /// Their end ends the threads.
    _ends: [Sender<()>; 2],
}

/// The longest of some times.
#[derive(Clone, Debug, Default)]
struct Longest(Arc<AtomicU64>);

impl Longest {
    fn was(&self, time: Duration) {
        self.0.fetch_max(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

impl Watch {
    pub(crate) fn start() -> Watch {
        let (latest, slowest) = (Longest::default(), Longest::default());
        let mut before = Instant::now();
        let timer = latest.clone();
        let timers = every(PAUSE, move || {
            timer.was(before.elapsed().saturating_sub(PAUSE));
            before = Instant::now();
        });
        let (sync, file) = (slowest.clone(), file());
        let syncs = every(SELDOM, move || {
            let Some(mut file) = file.as_ref() else { return };
            let asked = Instant::now();
            if file.write_all(b"s").and_then(|()| file.sync_data()).is_ok() {
                sync.was(asked.elapsed());
            }
        });
        Watch { latest, slowest, times: Times::now(), _ends: [timers, syncs] }
    }

    /// What it did instead of serving the test, if it did.
    pub(crate) fn stood_still(&self) -> Option<String> {
        let (late, slow) = (self.latest.get(), self.slowest.get());
        if late >= LATE {
            return Some(format!("a timer was {late:.0?} late"));
        }
        if slow >= SLOW {
            return Some(format!("the disk took {slow:.0?} for a byte"));
        }
        let stolen = Times::now()?.stolen_since(self.times?);
        (stolen >= STOLEN).then(|| format!("{stolen} % of its processors' time was another machine's"))
    }
}

/// Beside the folders of servers.
#[cfg(feature = "servers")]
fn file() -> Option<File> {
    tempfile::tempfile().ok()
}

/// No server that is started here writes anything.
#[cfg(not(feature = "servers"))]
fn file() -> Option<File> {
    None
}

/// Has this done again and again, until what is answered is dropped.
fn every(pause: Duration, mut work: impl FnMut() + Send + 'static) -> Sender<()> {
    let (ends, ended) = channel();
    thread::spawn(move || {
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            work();
        }
    });
    ends
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
        // Longer than any thread of a test waits for its processor.
        watch.latest.was(Duration::from_secs(40));
        assert_eq!(watch.stood_still().as_deref(), Some("a timer was 40s late"));
    }
}
