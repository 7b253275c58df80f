//! `docs/metrics.md` says what a run emits: the same names, kinds and labels, no more and no less.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, reason = "the life of a claim needs more of it")]
mod scripted;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use lock_core::Ending;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use scripted::{Script, busy, client, granted, held, ms, pass, released, unknown};

/// Name, kind, label keys.
type Row = (String, &'static str, Vec<String>);

#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<BTreeSet<Row>>>);

impl Seen {
    fn add(&self, key: &Key, kind: &'static str) {
        let labels = key.labels().map(|label| label.key().to_owned()).collect();
        self.0.lock().unwrap().insert((key.name().to_owned(), kind, labels));
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.add(key, "counter");
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.add(key, "gauge");
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.add(key, "histogram");
        Histogram::noop()
    }
}

/// The rows of the document's table: | `name` | kind | `label`, `label` | meaning |
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

/// Every kind of thing that happens to a lock, once.
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
    // A process that was stopped for a minute.
    let guard = lock.acquire().await.unwrap();
    pass(ms(500)).await;
    script.jump(ms(60_000));
    pass(ms(2000)).await;
    drop(guard);
    client.shutdown(ttl).await;
}

#[test]
fn the_table_is_what_a_run_emits() {
    let seen = Seen::default();
    metrics::with_local_recorder(&seen, || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(everything_happens());
    });
    assert_eq!(*seen.0.lock().unwrap(), documented());
}
