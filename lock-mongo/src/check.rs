//! `check`: is the set or the server reachable, are we allowed, is it prepared?

use std::time::Duration;

use lock_core::driver::{Finding, Level};
use lock_core::{ErrorKind, Name, Owner, Result};
use mongodb::bson::{DateTime, doc};

use crate::link::Hello;
use crate::primary::Drift;
use crate::profile::Kind;
use crate::schema::{self, Standing, VERSION};
use crate::server::{Call, Server};
use crate::statements;

/// One finding per question. An `Err` only if the server can't be reached at all.
pub(crate) async fn check(server: &Server, patience: Duration) -> Result<Vec<Finding>> {
    let call = Call::begin(&server.clock, patience);
    let hello = server.hello(call).await?;
    let name = Name::new(format!("check-{}", Owner::mint(&server.random)))?;
    Ok(vec![
        reachable(server, call).await,
        rights(server, call, &name).await,
        kind(server.profile.kind(), &hello),
        finding("write concern", Level::Good, "w: majority, j: true, set by this library with each request"),
        index(server, call).await,
        clock(server.link().primary.drift()),
        push(server, call, &name).await,
    ])
}

fn finding(subject: &'static str, level: Level, message: impl Into<String>) -> Finding {
    Finding { subject, level, message: message.into() }
}

async fn reachable(server: &Server, call: Call<'_>) -> Finding {
    let (link, address) = (server.link(), server.profile.get().server.clone());
    let asking = link.clone();
    let answer = server.ask(call, &link, async move { asking.database().run_command(doc! { "buildInfo": 1 }).await });
    match answer.await.map(|answer| answer.get_str("version").unwrap_or("of unknown version").to_owned()) {
        Ok(version) => finding("reachable", Level::Good, format!("MongoDB {version} at {address}")),
        Err(e) => finding("reachable", Level::Unknown, format!("a server answers at {address}: {}", e.message())),
    }
}

/// Has the server explain an attempt: it does not, to a user who may not make one, and it makes none.
async fn rights(server: &Server, call: Call<'_>, name: &Name) -> Finding {
    let me = statements::bytes(&[]);
    let attempt = doc! {
        "findAndModify": &server.place.collection,
        "query": { "_id": server.key(name) },
        "update": statements::attempt(&me, "", 0, DateTime::from_millis(0)),
        "upsert": true,
    };
    let link = server.link();
    let asking = link.clone();
    let explain = doc! { "explain": attempt, "verbosity": "queryPlanner" };
    let answer = server.ask(call, &link, async move { asking.database().run_command(explain).await }).await;
    match answer {
        Ok(_) => finding("rights", Level::Good, "this user may take and release locks"),
        Err(e) if e.kind() == ErrorKind::Rejected => finding("rights", Level::Bad, e.message()),
        Err(e) => finding("rights", Level::Unknown, e.message()),
    }
}

fn kind(kind: Option<Kind>, hello: &Hello) -> Finding {
    match kind {
        Some(Kind::ReplicaSet) => finding(
            "replica set",
            Level::Good,
            format!("{} with {} members", hello.set.as_deref().unwrap_or("without a name"), hello.members),
        ),
        Some(Kind::Standalone) => finding(
            "replica set",
            Level::Warning,
            "a standalone server: waiters look again and again, and an attempt that arrives after its release is \
             refused by its deadline alone. A replica set, if only of one member, has neither limit",
        ),
        Some(Kind::Sharded) => finding(
            "replica set",
            Level::Warning,
            "a sharded cluster, on which this library is not tested; leases end by the clock of the mongos that is asked",
        ),
        None => finding("replica set", Level::Unknown, "the driver has not said what answers"),
    }
}

async fn index(server: &Server, call: Call<'_>) -> Finding {
    match schema::look(server, call).await {
        Ok(Standing::Ours) => finding("schema", Level::Good, format!("the collection has version {VERSION}")),
        Ok(Standing::Missing) => finding(
            "schema",
            Level::Warning,
            "the collection's index is missing: locks work, but names that are no longer used stay; init makes it",
        ),
        Err(e) if e.kind() == ErrorKind::Rejected => finding("schema", Level::Bad, e.message()),
        Err(e) => finding("schema", Level::Unknown, e.message()),
    }
}

/// What matters of the server's clock is not what it shows but how it goes: leases end by it.
fn clock(drift: Option<Drift>) -> Finding {
    let young = "this connection is too young to tell how the server's clock goes";
    let Some(Drift { over, micros }) = drift.filter(|drift| drift.over >= SHORTEST_LOOK) else {
        return finding("clock", Level::Unknown, young); // round trips would be taken for drift
    };
    let off = Duration::from_micros(micros.unsigned_abs());
    let direction = if micros < 0 { "behind" } else { "ahead" };
    let message = format!("the server's clock has gone {off:?} {direction} of ours within {over:?}");
    match off > over / 100 + A_ROUND_TRIP {
        true => finding(
            "clock",
            Level::Warning,
            format!("{message}: it is set while locks are held, or goes too fast or too slow; leases are off by as much"),
        ),
        false => finding("clock", Level::Good, message),
    }
}

const SHORTEST_LOOK: Duration = Duration::from_secs(10);
const A_ROUND_TRIP: Duration = Duration::from_millis(50);

async fn push(server: &Server, call: Call<'_>, name: &Name) -> Finding {
    match server.wakes.listen(name, &server.clock, call.left()).await {
        Ok(_) => finding("push", Level::Good, "waiters are woken by a release"),
        Err(e) if e.kind() == ErrorKind::Unsupported => finding("push", Level::Warning, e.message()),
        Err(e) => finding("push", Level::Unknown, e.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_how_it_goes() {
        let level = |seconds, micros| clock(Some(Drift { over: Duration::from_secs(seconds), micros })).level;
        assert_eq!(clock(None).level, Level::Unknown);
        assert_eq!(level(1, 0), Level::Unknown);
        assert_eq!(level(60, 1_000), Level::Good);
        assert_eq!(level(60, -2_000_000), Level::Warning);
        assert_eq!(level(60, 2_000_000), Level::Warning);
    }
}
