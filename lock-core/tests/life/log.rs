//! Trouble in the log: one line for a connection, not one for each lock and try.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use lock_core::driver::Watched;
use lock_core::{Client, Guard, Options};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::scripted::{Script, client_with, granted, held, ms, pass, released, unknown};

const LOCKS: usize = 50;
const TTL: Duration = Duration::from_secs(30);

/// The lines of this thread's log: how often each was written, by its level and text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<BTreeMap<(Level, String), usize>>>);

/// While there is one subscriber, `tracing` asks only the thread that comes first to an event whether it
/// wants the event at all. Other tests, on threads without a subscriber, don't.
static EVERY_EVENT: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [Dispatch::new(Log::default()), Dispatch::new(Log::default())]);

impl Log {
    /// Records what this thread logs until the guard is dropped.
    fn record() -> (Log, DefaultGuard) {
        LazyLock::force(&EVERY_EVENT);
        let log = Log::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    fn count(&self, level: Level, text: &str) -> usize {
        self.0.lock().unwrap().get(&(level, text.to_owned())).copied().unwrap_or(0)
    }

    fn warnings(&self) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|((level, _), _)| *level <= Level::WARN).map(|(_, count)| count).sum()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        *self.0.lock().unwrap().entry((*event.metadata().level(), text.0)).or_default() += 1;
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

async fn acquired(client: &Client, locks: usize) -> Vec<Guard> {
    let mut guards = Vec::new();
    for number in 0..locks {
        let lock = client.lock(format!("n{number}")).ttl(TTL).build().unwrap();
        guards.push(lock.acquire().await.unwrap());
    }
    guards
}

/// The server dies while fifty locks are held, and is dead until their leases have ended.
#[tokio::test(start_paused = true)]
async fn a_dead_server_is_one_line_per_connection() {
    let (log, _recorded) = Log::record();
    let script = Script::new([granted(TTL)], [unknown(ms(5000))], [unknown(ms(5000))]);
    script.watches.lock().unwrap().push_back(unknown(ms(5000)));
    let client = client_with(&script, Options::default()).await;
    let guards = acquired(&client, LOCKS).await;
    pass(Duration::from_secs(36)).await;
    assert!(guards.iter().all(|guard| !guard.is_held()));

    // The connection for requests, and the one for wake-ups.
    assert_eq!(log.count(Level::WARN, "lock server trouble"), 2);
    assert!(log.count(Level::DEBUG, "lock server trouble") > 2 * LOCKS, "each failed call is in the log");
    // Each loss is told: the work under that lock was stopped.
    assert_eq!(log.count(Level::WARN, "lock lost"), LOCKS);
    assert_eq!(log.warnings(), 2 + LOCKS);
}

#[tokio::test(start_paused = true)]
async fn a_recovered_server_is_logged_and_outages_again() {
    let (log, _recorded) = Log::record();
    let renewals = [unknown(ms(1000)), held(TTL), held(TTL), unknown(ms(1000)), held(TTL)];
    let script = Script::new([granted(TTL)], renewals, [released()]);
    script.watches.lock().unwrap().push_back((ms(1), Ok(Watched::SinceTheGrant)));
    let client = client_with(&script, Options::default()).await;
    let _guards = acquired(&client, 1).await;
    pass(TTL * 2).await;
    assert_eq!(log.count(Level::WARN, "lock server trouble"), 2);
    assert_eq!(log.count(Level::INFO, "lock server answers again"), 2);
}
