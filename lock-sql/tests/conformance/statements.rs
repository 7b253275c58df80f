//! Counts the statements that reach SQLite, as sqlx tells them.

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
    tracing::subscriber::set_global_default(Count).expect("nobody else subscribes");
}

/// A lock was granted before: if nothing was counted, sqlx tells its statements in another way now.
pub(crate) fn counted() -> Counters {
    let (requests, writes) = (REQUESTS.load(Ordering::SeqCst), WRITES.load(Ordering::SeqCst));
    assert!(requests > 0 && writes > 0, "sqlx tells of {requests} statements, {writes} of them writes");
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
