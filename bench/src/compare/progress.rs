//! Shows which step runs and how much time is left, on standard error.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

/// The progress of one run.
pub(super) struct Progress {
    bar: ProgressBar,
    schedule: Arc<Mutex<Schedule>>,
}

/// How far a run is, by its estimates.
#[derive(Debug)]
struct Schedule {
    total: Duration,
    done: Duration,
    /// What runs now: when it began, and how long it takes as estimated.
    current: Option<(Instant, Duration)>,
}

impl Schedule {
    fn left(&self, now: Instant) -> Duration {
        let of_current =
            |(began, whole): (Instant, Duration)| whole.min(now.saturating_duration_since(began));
        let passed = self.current.map_or(Duration::ZERO, of_current);
        self.total.saturating_sub(self.done + passed)
    }

    /// Ends what runs now, and begins something that takes this long.
    fn begin(&mut self, now: Instant, whole: Duration) {
        self.end();
        self.current = Some((now, whole));
    }

    fn end(&mut self) {
        if let Some((_, whole)) = self.current.take() {
            self.done += whole;
        }
    }
}

impl Progress {
    /// Begins to show the progress of a run that takes `total`.
    pub(super) fn of(total: Duration) -> Progress {
        let schedule = Arc::new(Mutex::new(Schedule { total, done: Duration::ZERO, current: None }));
        let shown = schedule.clone();
        let left = move |_: &ProgressState, out: &mut dyn Write| {
            let left = lock(&shown).left(Instant::now());
            // What can't be written is not shown.
            let _ = write!(out, "{}", clock(left));
        };
        let bar = ProgressBar::new(total.as_secs());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {left} left, {elapsed} gone  {msg}") {
            bar.set_style(style.with_key("left", left));
        }
        // Drawn by a thread of its own: a measurement may use every thread of the runtime.
        bar.enable_steady_tick(Duration::from_secs(1));
        Progress { bar, schedule }
    }

    pub(super) fn begin(&self, what: &str, whole: Duration) {
        lock(&self.schedule).begin(Instant::now(), whole);
        self.bar.set_message(what.to_owned());
        self.advance();
        if self.bar.is_hidden() {
            let left = lock(&self.schedule).left(Instant::now());
            eprintln!("{what} ({} left)", clock(left));
        }
    }

    /// Passes over what takes this long, because it is not done.
    pub(super) fn skip(&self, whole: Duration) {
        lock(&self.schedule).done += whole;
        self.advance();
    }

    /// Shows a line beside the bar.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    fn advance(&self) {
        let done = lock(&self.schedule).done;
        self.bar.set_position(done.as_secs());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn lock(schedule: &Mutex<Schedule>) -> std::sync::MutexGuard<'_, Schedule> {
    schedule.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats a time as minutes and seconds: `9:05`.
fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_falls_while_a_step_runs_and_not_below_the_steps_after_it() {
        let secs = Duration::from_secs;
        let now = Instant::now();
        let mut schedule = Schedule { total: secs(100), done: Duration::ZERO, current: None };
        assert_eq!(schedule.left(now), secs(100));
        schedule.begin(now, secs(10));
        assert_eq!(schedule.left(now + secs(4)), secs(96));
        assert_eq!(schedule.left(now + secs(40)), secs(90), "it takes longer than estimated");
        schedule.begin(now + secs(40), secs(20));
        assert_eq!(schedule.left(now + secs(40)), secs(90));
        schedule.end();
        assert_eq!(schedule.left(now + secs(70)), secs(70));
    }

    #[test]
    fn a_time_is_minutes_and_seconds() {
        assert_eq!((clock(Duration::from_secs(545)), clock(Duration::ZERO)), ("9:05".into(), "0:00".into()));
    }
}
