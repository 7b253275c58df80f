//! Counts the statements that reach the database, as sqlx reports them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_conformance::Counters;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static WRITES: AtomicU64 = AtomicU64::new(0);

/// Counts from now on.
pub(crate) fn count() {
    tracing::subscriber::set_global_default(Count).expect("there is no other subscriber");
}

/// Returns the counts. A lock was granted before this call, so if nothing was counted, sqlx now reports its statements
/// in another way.
pub(crate) fn counted() -> Counters {
    let (requests, writes) = (REQUESTS.load(Ordering::SeqCst), WRITES.load(Ordering::SeqCst));
    assert!(requests > 0 && writes > 0, "sqlx reported {requests} statements, {writes} of them writes");
    Counters { requests, writes }
}

struct Count;

impl Subscriber for Count {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Statement);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Statement;

impl Visit for Statement {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "summary" {
            REQUESTS.fetch_add(1, Ordering::SeqCst);
            let reads = ["SELECT", "PRAGMA"].iter().any(|verb| value.trim_start().starts_with(verb));
            WRITES.fetch_add(u64::from(!reads), Ordering::SeqCst);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
