//! `docs/metrics.md` states what a run emits: the same names, kinds and labels, no more and no less.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, reason = "the life of a claim needs more of it")]
mod scripted;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use lock_core::driver::Renewal;
use lock_core::{Completion, Ending, LossReason, Period};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use scripted::{Script, busy, client, granted, held, ms, pass, released, unknown};

/// Name, kind, label keys.
type Row = (String, &'static str, Vec<String>);

/// One metric with its labels, and the values that were recorded.
#[derive(Debug)]
struct Series {
    name: String,
    kind: &'static str,
    labels: Vec<(String, String)>,
    /// All values of a histogram. Of a counter or gauge the one value, which began at zero.
    values: Mutex<Vec<f64>>,
}

impl Series {
    fn add(&self, by: f64) {
        self.values.lock().unwrap()[0] += by;
    }
}

impl CounterFn for Series {
    fn increment(&self, by: u64) {
        self.add(by as f64);
    }

    fn absolute(&self, _: u64) {
        panic!("a counter is only incremented");
    }
}

impl GaugeFn for Series {
    fn increment(&self, by: f64) {
        self.add(by);
    }

    fn decrement(&self, by: f64) {
        self.add(-by);
    }

    fn set(&self, _: f64) {
        panic!("clients of one process share a gauge: none may set it");
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.values.lock().unwrap().push(value);
    }
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<Vec<Arc<Series>>>>);

impl Seen {
    fn series(&self, key: &Key, kind: &'static str) -> Arc<Series> {
        let labels: Vec<_> =
            key.labels().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
        let mut all = self.0.lock().unwrap();
        if let Some(known) = all.iter().find(|series| series.name == key.name() && series.labels == labels) {
            assert_eq!(known.kind, kind);
            return known.clone();
        }
        let values = Mutex::new(if kind == "histogram" { Vec::new() } else { vec![0.0] });
        let series = Arc::new(Series { name: key.name().to_owned(), kind, labels, values });
        all.push(series.clone());
        series
    }

    fn rows(&self) -> BTreeSet<Row> {
        let keys = |series: &Series| series.labels.iter().map(|(key, _)| key.clone()).collect();
        let all = self.0.lock().unwrap();
        all.iter().map(|series| (series.name.clone(), series.kind, keys(series))).collect()
    }

    /// Returns what was recorded of the series of this name whose label beside the backend, if there is one, has this
    /// value. The backend is the script's.
    fn of(&self, name: &str, value: &str) -> Vec<f64> {
        let all = self.0.lock().unwrap();
        let is_it = |series: &&Arc<Series>| {
            assert_eq!(series.labels[0], ("backend".to_owned(), "scripted".to_owned()));
            series.name == name && series.labels.get(1).map_or("", |(_, value)| value) == value
        };
        all.iter().find(is_it).map(|series| series.values.lock().unwrap().clone()).unwrap_or_default()
    }

    /// Returns the same in whole milliseconds.
    fn millis_of(&self, name: &str) -> Vec<u64> {
        self.of(name, "").into_iter().map(|seconds| (seconds * 1000.0).round() as u64).collect()
    }

    /// Returns all values of a label.
    fn values_of(&self, label: &str) -> BTreeSet<String> {
        let all = self.0.lock().unwrap();
        let labels = all.iter().flat_map(|series| &series.labels);
        labels.filter(|(key, _)| key == label).map(|(_, value)| value.clone()).collect()
    }

    /// Returns how many callers wait, and how many locks are held.
    fn gauges(&self) -> (Vec<f64>, Vec<f64>) {
        (self.of("lock_waiting", ""), self.of("lock_held", ""))
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key, "counter"))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key, "gauge"))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key, "histogram"))
    }
}

/// Returns the rows of the document's table: | `name` | kind | `label`, `label` | meaning |
fn documented() -> BTreeSet<Row> {
    let code = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(String::from).collect() };
    let table = include_str!("../../docs/metrics.md").lines().filter(|line| line.starts_with("| `"));
    table
        .map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let kind = ["counter", "gauge", "histogram"].into_iter().find(|kind| *kind == cells[2]).unwrap();
            (code(cells[1]).remove(0), kind, code(cells[3]))
        })
        .collect()
}

/// Does everything once that can happen to a lock.
async fn everything_happens() {
    let ttl = ms(3000);
    let script =
        Script::new([busy(), unknown(ms(10)), granted(ttl)], [held(ttl), unknown(ms(10))], [released()]);
    let client = client(&script).await;
    let lock = client.lock("n").ttl(ttl).build().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.try_acquire().await.is_err());
    let guard = lock.acquire().await.unwrap();
    pass(ms(1500)).await;
    guard.lost().await;
    pass(ms(100)).await;
    assert_eq!(guard.release().await, Ending::Expired);
    // The process was stopped for a minute.
    let guard = lock.acquire().await.unwrap();
    pass(ms(500)).await;
    script.jump(ms(60_000));
    pass(ms(2000)).await;
    drop(guard);
    client.shutdown(ttl).await;
}

/// Returns the values that the document gives a label: - `label`: `value`; `value`, …
fn documented_values(label: &str) -> BTreeSet<String> {
    let page = include_str!("../../docs/metrics.md");
    let (_, after) = page.split_once(&format!("\n- `{label}`:")).unwrap();
    let item = after.split("\n- ").next().unwrap().split("\n\n").next().unwrap();
    let code = item.split('`').skip(1).step_by(2).filter(|code| !code.contains("::"));
    code.map(String::from).collect()
}

/// Runs `run` on a virtual clock and returns what it has recorded. Its runtime has ended then.
fn recorded(run: impl AsyncFnOnce(&Seen)) -> Seen {
    let seen = Seen::default();
    metrics::with_local_recorder(&seen, || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run(&seen));
    });
    seen
}

#[test]
fn the_table_is_what_a_run_emits() {
    assert_eq!(recorded(async |_| everything_happens().await).rows(), documented());
}

#[test]
fn the_numbers_are_those_of_what_happened() {
    let seen = recorded(async |seen| {
        let ttl = ms(3000);
        let script = Script::new(
            [(ms(7), busy().1), (ms(4), granted(ttl).1)],
            [(ms(3), held(ttl).1)],
            [(ms(2), released().1)],
        );
        let client = client(&script).await;
        let lock = client.lock("n").ttl(ttl).build().unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        let guard = lock.acquire().await.unwrap();
        let behind = client.lock("n").ttl(ttl).wait(ms(50)).build().unwrap();
        let (waited, ()) = tokio::join!(behind.acquire(), async {
            pass(ms(10)).await;
            assert_eq!(seen.gauges(), (vec![1.0], vec![1.0]), "one caller waits and one lock is held");
        });
        waited.unwrap_err();
        pass(ms(1400)).await;
        assert_eq!(seen.gauges(), (vec![0.0], vec![1.0]));
        assert_eq!(guard.release().await, Ending::Released);
        assert_eq!(seen.gauges(), (vec![0.0], vec![0.0]));
    });
    for outcome in ["busy", "granted", "given_up"] {
        assert_eq!(seen.of("lock_acquisitions_total", outcome), [1.0], "{outcome}");
    }
    assert_eq!(seen.millis_of("lock_wait_seconds"), [7, 4, 50]);
    assert_eq!(
        (seen.of("lock_renewals_total", ""), seen.millis_of("lock_renewal_seconds")),
        (vec![1.0], vec![3])
    );
    assert_eq!(seen.of("lock_releases_total", "released"), [1.0]);
    // From the start of the attempt that was granted to the end of the release.
    assert_eq!(seen.millis_of("lock_hold_seconds"), [4 + 50 + 1400 + 2]);
    for (none, label) in [("lock_lost_total", "cause"), ("lock_errors_total", "operation")] {
        assert!(seen.rows().iter().all(|(name, ..)| name != none) && seen.values_of(label).is_empty());
    }
    assert!(seen.of("lock_clock_jumps_total", "").is_empty());
}

/// Runs the life of a claim that ends with `end`.
async fn life(end: &'static str) {
    let ttl = ms(3000);
    let script = Script::new([granted(ttl)], [held(ttl)], [released()]);
    let causes = [LossReason::Revoked, LossReason::Taken, LossReason::Gone, LossReason::Session];
    match (end, causes.into_iter().find(|cause| cause.as_str() == end)) {
        (_, Some(cause)) => script.renewals.lock().unwrap().push_front((ms(1), Ok(Renewal::Lost(cause)))),
        ("busy" | "given_up" | "listen", _) => {
            script.attempts.lock().unwrap().extend([busy()]);
            script.attempts.lock().unwrap().pop_front();
            script.listens.lock().unwrap().push_front(unknown(ms(20)));
        }
        ("error" | "attempt", _) => script.attempts.lock().unwrap().push_front(unknown(ms(20))),
        ("watch", _) => script.watches.lock().unwrap().push_front(unknown(ms(20))),
        ("renew", _) => script.renewals.lock().unwrap().push_front(unknown(ms(20))),
        ("expired", _) => script.renewals.lock().unwrap().push_front(unknown(ttl * 2)),
        ("release", _) => script.releases.lock().unwrap().push_front(unknown(ms(20))),
        ("complete", _) => return periodic_life(&script).await,
        ("claim", _) => script.panics_in("attempt"),
        ("runtime_ended", _) => script.panics_in("renew"),
        _ => {}
    }
    let client = client(&script).await;
    let terms = client.lock("n").ttl(ttl).wait(ms(100));
    let lock = if end == "max_hold" { terms.max_hold(ms(1500)) } else { terms }.build().unwrap();
    let guard = match end {
        "busy" | "error" => lock.try_acquire().await.ok().flatten(),
        _ => lock.acquire().await.ok(),
    };
    pass(ttl).await;
    if end == "cut off" {
        // The runtime ends, and its claims with it.
        return std::mem::forget(guard);
    }
    drop(guard);
    assert_eq!(client.shutdown(ttl * 4).await, 0, "{end}");
}

/// Runs the life of a claim whose slot is kept when that is asked for the second time.
async fn periodic_life(script: &Arc<Script>) {
    script.times.lock().unwrap().push_back((ms(1), Ok(0)));
    script.renewals.lock().unwrap().push_front(unknown(ms(20)));
    let client = client(script).await;
    let lock = client.lock("n").ttl(ms(3000)).build().unwrap();
    let lock = lock.once_per(Period::every(ms(60_000)).unwrap()).unwrap();
    assert_eq!(lock.acquire().await.unwrap().complete().await, Completion::Kept);
    assert_eq!(client.shutdown(ms(1)).await, 0);
}

const ENDS: [&str; 18] = [
    "released",
    "busy",
    "given_up",
    "error",
    "attempt",
    "listen",
    "watch",
    "renew",
    "release",
    "claim",
    "revoked",
    "taken",
    "gone",
    "session",
    "expired",
    "max_hold",
    "runtime_ended",
    "complete",
];

#[test]
fn exactly_the_documented_label_values_are_seen() {
    let seen = recorded(async |_| {
        for end in ENDS {
            life(end).await;
        }
    });
    for label in ["outcome", "cause", "ending", "operation"] {
        assert_eq!(seen.values_of(label), documented_values(label), "{label}");
    }
}

/// Losses, troubles and jumps.
#[test]
fn what_goes_wrong_is_counted_once() {
    for end in ENDS {
        let seen = recorded(async |_| life(end).await);
        let is_loss = documented_values("cause").contains(end);
        assert_eq!(seen.of("lock_lost_total", end), if is_loss { vec![1.0] } else { vec![] }, "{end}");
        if documented_values("operation").contains(end) {
            // Both calls are repeated as long as the wait or the hold lasts.
            let times = match end {
                "listen" => 4.0,
                "watch" => 3.0,
                _ => 1.0,
            };
            assert_eq!(seen.of("lock_errors_total", end), [times], "{end}");
        }
    }
    let seen = recorded(async |_| everything_happens().await);
    assert_eq!(seen.of("lock_clock_jumps_total", ""), [1.0]);
}

#[test]
fn the_gauges_come_back_to_zero_however_it_ends() {
    for end in ENDS.into_iter().chain(["cut off"]) {
        let seen = recorded(async |_| life(end).await);
        let (waiting, held) = seen.gauges();
        assert_eq!(waiting, [0.0], "{end}");
        assert!(held.iter().all(|held| *held == 0.0), "{end}: {held:?}");
    }
}
