//! Whether the machine itself kept time while a test ran. A delay on a machine that stood still meanwhile, as virtual
//! machines do, says nothing about a backend.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the machine is checked.
const PAUSE: Duration = Duration::from_millis(5);
/// The disk is checked so rarely that servers don't notice.
const SELDOM: Duration = Duration::from_millis(100);
/// A disk that takes no longer than this for a byte keeps no server waiting.
const PROMPT: Duration = Duration::from_millis(5);
/// No test takes longer than this.
const REMEMBERED: Duration = Duration::from_secs(660);

/// Why a test did not continue although it could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// A thread was woken that much later than planned: the machine stood still, or its timers did.
    Timer,
    /// Other processes had the processors.
    Busy,
    /// Another virtual machine had the processors' time.
    Stolen,
    Disk,
}

impl Reason {
    const ALL: [Reason; 4] = [Reason::Timer, Reason::Busy, Reason::Stolen, Reason::Disk];

    fn as_str(self) -> &'static str {
        match self {
            Reason::Timer => "no timer came in time",
            Reason::Busy => "the processors were taken",
            Reason::Stolen => "the processors' time was another machine's",
            Reason::Disk => "the disk did not answer",
        }
    }
}

/// How long the machine stood still within some time, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) time: Duration,
    reason: Reason,
}

#[cfg(test)]
impl Stall {
    pub(crate) fn of(time: Duration) -> Stall {
        Stall { time, reason: Reason::Timer }
    }
}

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for {:.0?}", self.reason.as_str(), self.time)
    }
}

/// Returns the longest stall of this machine since `since`, within a time of `span`. The machine is watched from the
/// first call of [`watch`] on.
pub(crate) fn stalled(since: Instant, span: Duration) -> Stall {
    watch().lock().unwrap_or_else(PoisonError::into_inner).longest(since, span)
}

/// Watches the machine from now on.
pub(crate) fn watch() -> &'static Mutex<Seen> {
    static SEEN: OnceLock<Arc<Mutex<Seen>>> = OnceLock::new();
    SEEN.get_or_init(|| {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let timers = seen.clone();
        thread::spawn(move || watch_time(&timers));
        for file in files() {
            let disk = seen.clone();
            thread::spawn(move || watch_disk(&disk, file));
        }
        seen
    })
}

/// What was lost of the machine's time, and when, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Seen(VecDeque<(Instant, Reason, Duration)>);

impl Seen {
    fn lost(&mut self, at: Instant, reason: Reason, time: Duration) {
        while self.0.front().is_some_and(|(then, ..)| at.saturating_duration_since(*then) > REMEMBERED) {
            self.0.pop_front();
        }
        if !time.is_zero() {
            self.0.push_back((at, reason, time));
        }
    }

    fn longest(&self, since: Instant, span: Duration) -> Stall {
        let of = |reason| Stall { time: self.longest_of(reason, since, span), reason };
        let worst = |a: Stall, b: Stall| if b.time > a.time { b } else { a };
        Reason::ALL.into_iter().map(of).reduce(worst).unwrap_or(of(Reason::Timer))
    }

    /// Returns the most that was lost for this reason within a time of `span`.
    fn longest_of(&self, reason: Reason, since: Instant, span: Duration) -> Duration {
        let of_it = || self.0.iter().filter(|(at, why, _)| *why == reason && *at >= since);
        let (mut first, mut sum, mut longest) = (of_it().peekable(), Duration::ZERO, Duration::ZERO);
        for (at, _, time) in of_it() {
            sum += *time;
            while let Some((_, _, old)) =
                first.next_if(|(then, ..)| at.saturating_duration_since(*then) > span)
            {
                sum -= *old;
            }
            longest = longest.max(sum);
        }
        longest
    }
}

fn watch_time(seen: &Mutex<Seen>) {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let mut stolen = stolen();
    loop {
        let asked = Instant::now();
        thread::sleep(PAUSE);
        let now = Instant::now();
        let took = now.saturating_duration_since(asked);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Less than a millisecond is the timer's own slack.
        let late = took.saturating_sub(PAUSE);
        seen.lost(now, Reason::Timer, if late > Duration::from_millis(1) { late } else { Duration::ZERO });
        seen.lost(now, Reason::Busy, taken(took, runnable(), processors));
        let by_now = self::stolen();
        let lost = by_now.saturating_sub(stolen) / u32::try_from(processors).unwrap_or(1);
        seen.lost(now, Reason::Stolen, lost);
        stolen = by_now;
    }
}

/// Returns how much of `time` a thread had to wait for a processor that so many threads wanted.
fn taken(time: Duration, runnable: usize, processors: usize) -> Duration {
    let without = runnable.saturating_sub(processors);
    time.mul_f64(without as f64 / runnable.max(1) as f64)
}

/// Returns how many threads of the machine can run at this moment, without this one. See proc_loadavg(5). Linux only.
fn runnable() -> usize {
    let said = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    parse_runnable(&said).unwrap_or(1).saturating_sub(1)
}

/// `0.20 0.18 0.12 runnable/all last-pid`
fn parse_runnable(loadavg: &str) -> Option<usize> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// Returns the stolen time of all processors since the machine was started. See proc_stat(5). Linux only.
fn stolen() -> Duration {
    parse_stolen(&std::fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
}

/// `cpu user nice system idle iowait irq softirq steal …`, in hundredths of a second.
fn parse_stolen(stat: &str) -> Option<Duration> {
    let ticks: u64 = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

fn watch_disk(seen: &Mutex<Seen>, mut file: File) {
    loop {
        thread::sleep(SELDOM);
        let asked = Instant::now();
        if file.write_all(b"s").and_then(|()| file.sync_data()).is_ok() {
            let lost = asked.elapsed().saturating_sub(PROMPT);
            seen.lock().unwrap_or_else(PoisonError::into_inner).lost(Instant::now(), Reason::Disk, lost);
        }
    }
}

/// Opens temporary files where servers have their folders: where temporary files are, which may be in memory, and on
/// the disk of this program, where the servers that run under chroot are.
fn files() -> Vec<File> {
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(std::path::Path::parent).map(tempfile::tempfile_in);
    [Some(tempfile::tempfile()), beside].into_iter().flatten().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(parse_runnable("0.02 0.33 1.71 3/90 4269\n"), Some(3));
        assert_eq!(parse_runnable("0.02 0.33"), None);
        let stat = "cpu  100 0 50 800 10 5 5 30 7 7\ncpu0 1 2 3\n";
        assert_eq!(parse_stolen(stat), Some(ms(300)));
        assert_eq!(parse_stolen("cpu 1 2"), None);
    }

    #[test]
    fn a_thread_waits_for_a_processor_if_more_want_one_than_there_are() {
        assert_eq!(taken(ms(6), 2, 2), ms(0));
        assert_eq!(taken(ms(6), 3, 2), ms(2));
        assert_eq!(taken(ms(6), 0, 2), ms(0));
    }

    #[test]
    fn the_longest_stall_is_of_one_reason_within_the_time() {
        let began = Instant::now();
        let mut seen = Seen::default();
        seen.lost(began, Reason::Timer, ms(900));
        for n in 1..=9 {
            seen.lost(began + ms(100 * n), Reason::Busy, ms(10 * n));
        }
        seen.lost(began + ms(950), Reason::Disk, ms(250));
        let since = began + ms(1);
        // 80 and 90 of one reason, and 250 of another.
        assert_eq!(seen.longest(since, ms(150)), Stall { time: ms(250), reason: Reason::Disk });
        assert_eq!(seen.longest(since, ms(400)), Stall { time: ms(350), reason: Reason::Busy });
        assert_eq!(seen.longest(began, ms(1)).time, ms(900));
        assert_eq!(seen.longest(began + ms(2000), ms(400)).time, ms(0));
    }

    #[test]
    fn a_machine_is_watched() {
        watch();
        let asked = Instant::now();
        let lost = || watch().lock().unwrap().lost(Instant::now(), Reason::Timer, ms(40_000));
        lost();
        // Longer than any thread of a test waits for a processor.
        assert_eq!(stalled(asked, ms(1)).to_string(), "no timer came in time for 40s");
    }
}
