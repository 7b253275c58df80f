//! `check`: whether the set or the server is reachable, this user has the rights, and the collection is prepared.

use std::time::Duration;

use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use lock_core::{ErrorKind, Name, Owner, Result};
use mongodb::bson::{DateTime, doc};

use crate::link::Hello;
use crate::profile::Kind;
use crate::schema::{self, IndexState, VERSION};
use crate::server::Server;
use crate::statements;

/// Returns one finding per question. Fails only if the server can't be reached at all.
pub(crate) async fn check(server: &Server, patience: Duration) -> Result<Vec<Finding>> {
    let call = &Call::begin(&server.clock, patience);
    let hello = server.hello(call).await?;
    let name = Name::new(format!("check-{}", Owner::mint(&server.random)))?;
    Ok(vec![
        reachable(server, call).await,
        rights(server, call, &name).await,
        kind(server.profile.kind(), &hello),
        Finding::new(
            "write concern",
            Level::Good,
            "w: majority, j: true, set by this library with each request",
        ),
        index(server, call).await,
        server.link().primary.drift().unwrap_or_default().finding(),
        push(server, call, &name).await,
    ])
}

async fn reachable(server: &Server, call: &Call) -> Finding {
    let (link, address) = (server.link(), server.profile.get().server.clone());
    let asking = link.clone();
    let answer =
        server.ask(call, &link, async move { asking.database().run_command(doc! { "buildInfo": 1 }).await });
    match answer.await.map(|answer| answer.get_str("version").unwrap_or("of unknown version").to_owned()) {
        Ok(version) => Finding::new("reachable", Level::Good, format!("MongoDB {version} at {address}")),
        Err(e) => Finding::new(
            "reachable",
            Level::Unknown,
            format!("a server answers at {address}: {}", e.message()),
        ),
    }
}

/// Asks the server to explain an attempt, which changes nothing. The server refuses that to a user without the rights
/// for the attempt.
async fn rights(server: &Server, call: &Call, name: &Name) -> Finding {
    let me = statements::bytes(&[]);
    let attempt = doc! {
        "findAndModify": &server.namespace.collection,
        "query": { "_id": server.key(name) },
        "update": statements::attempt(&me, "", 0, DateTime::from_millis(0)),
        "upsert": true,
    };
    let link = server.link();
    let asking = link.clone();
    let explain = doc! { "explain": attempt, "verbosity": "queryPlanner" };
    let answer = server.ask(call, &link, async move { asking.database().run_command(explain).await }).await;
    match answer {
        Ok(_) => Finding::new("rights", Level::Good, "this user may take and release locks"),
        Err(e) => Finding::of_failure("rights", &e),
    }
}

fn kind(kind: Option<Kind>, hello: &Hello) -> Finding {
    match kind {
        Some(Kind::ReplicaSet) => Finding::new(
            "replica set",
            Level::Good,
            format!("{} with {} members", hello.set.as_deref().unwrap_or("without a name"), hello.members),
        ),
        Some(Kind::Standalone) => Finding::new(
            "replica set",
            Level::Warning,
            "a standalone server: waiters ask again and again, and an attempt that arrives after its release is \
             refused by its deadline alone. A replica set, even of one member, has neither limit",
        ),
        Some(Kind::Sharded) => Finding::new(
            "replica set",
            Level::Warning,
            "a sharded cluster, on which this library is not tested; leases end by the clock of the mongos that is asked",
        ),
        None => Finding::new("replica set", Level::Unknown, "what kind of server answers is not known yet"),
    }
}

async fn index(server: &Server, call: &Call) -> Finding {
    match schema::look(server, call).await {
        Ok(IndexState::Present) => {
            Finding::new("schema", Level::Good, format!("the collection has version {VERSION}"))
        }
        Ok(IndexState::Missing) => Finding::new(
            "schema",
            Level::Warning,
            "the collection's index is missing: locks work, but documents of unused names stay; init creates it",
        ),
        Err(e) => Finding::of_failure("schema", &e),
    }
}

async fn push(server: &Server, call: &Call, name: &Name) -> Finding {
    match server.wakes.listen(name, call).await {
        Ok(_) => Finding::new("push", Level::Good, "waiters are woken by a release"),
        Err(e) if e.kind() == ErrorKind::Unsupported => Finding::new("push", Level::Warning, e.message()),
        Err(e) => Finding::new("push", Level::Unknown, e.message()),
    }
}
