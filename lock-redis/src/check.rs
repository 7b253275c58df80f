//! `check`: is the server reachable, does the user have the rights, does the server keep its data?

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use lock_core::{Error, ErrorKind, Name, Owner, Random, Result};
use redis::{Cmd, Value};

use crate::acks::Acknowledged;
use crate::facts::Fitness;
use crate::feed::Topic;
use crate::layout::Keys;
use crate::link::Link;
use crate::scripts::unexpected;
use crate::server::Server;

/// Returns one finding per question. An `Err` only if the server can't be reached at all.
pub(crate) async fn check(server: &Arc<Server>, patience: Duration) -> Result<Vec<Finding>> {
    check_by(server, &unused_name(&server.random), patience).await
}

/// Returns a name that no lock has.
pub(crate) fn unused_name(random: &Random) -> Name {
    Name::new(format!("check-{}", Owner::mint(random))).expect("38 letters, digits and a dash are a name")
}

/// Checks the server by a name that no lock has.
pub(crate) async fn check_by(server: &Arc<Server>, name: &Name, patience: Duration) -> Result<Vec<Finding>> {
    let call = &Call::begin(&server.clock, patience);
    let link = server.link(call).await?;
    let mut findings = vec![
        reachable(&link),
        rights(server, &link, call, name).await,
        link.drift().finding(),
        standing("persistence", link.facts.persistence()),
        standing("eviction", link.facts.eviction()),
        replicas(server, &link),
        push(server, call, name).await,
        revokes(server, call).await,
    ];
    findings.extend(acknowledgements(server, &link, call, name).await);
    findings.extend(server.finder.finding(call).await);
    Ok(findings)
}

fn reachable(link: &Link) -> Finding {
    let address = &link.site.address;
    match &link.facts.version {
        Some(version) => Finding::new("reachable", Level::Good, format!("{version} at {address}")),
        None => Finding::new(
            "reachable",
            Level::Unknown,
            format!(
                "a server answers at {address}, but this user may not ask its version (INFO); it has to be 6.2 or later"
            ),
        ),
    }
}

/// Returns the command that does what a lock needs on a key that no lock uses, and leaves nothing behind.
fn try_rights(server: &Server, link: &Link, keys: &Keys) -> Cmd {
    let mut all = keys.with_token();
    let latch = server.layout.latch(&keys.lock, &Owner::mint(&server.random));
    all.extend(latch);
    let mut command = server.layout.scripts().try_rights.on(&all);
    command.arg(keys.releases()).arg(link.facts.delivery.publish());
    command
}

async fn rights(server: &Arc<Server>, link: &Arc<Link>, call: &Call, name: &Name) -> Finding {
    if link.facts.is_replica() {
        return Finding::new("rights", Level::Unknown, "not tried on a replica");
    }
    let (keys, script) = (server.keys(name), &server.layout.scripts().try_rights);
    let answer = server.run_for_value(link, call, script, try_rights(server, link, &keys)).await;
    let tried = answer.and_then(|answer| refused(&answer));
    if let Ok((now @ 1.., _)) = tried {
        link.hear(&server.clock, now);
    }
    match tried.map(|(_, refused)| refused) {
        Ok(refused) if refused.is_empty() => {
            Finding::new("rights", Level::Good, "all that a lock needs is allowed")
        }
        Ok(refused) if refused == [link.facts.delivery.publish()] => Finding::new(
            "rights",
            Level::Warning,
            format!(
                "this user may not publish on a lock's channel (+{}, &pattern): its releases wake no waiter",
                link.facts.delivery.publish().to_ascii_lowercase()
            ),
        ),
        Ok(refused) => Finding::new(
            "rights",
            Level::Bad,
            format!(
                "this user lacks rights that locks need; grant +{}",
                refused.join(" +").to_ascii_lowercase()
            ),
        ),
        Err(e) => {
            let mut finding = Finding::of_failure("rights", &e);
            finding.message = format!(
                "tried on the key \"{}\" (?prefix= sets its beginning): {}",
                keys.lock.escape_ascii(),
                e.message()
            );
            finding
        }
    }
}

/// Parses the answer of `scripts/try_rights.lua`: the server's time, 0 if it was refused, and the refused commands.
fn refused(answer: &Value) -> Result<(i64, Vec<String>)> {
    let malformed = || -> Error { unexpected(answer) };
    let Value::Array(items) = answer else { return Err(malformed()) };
    let (now, commands) = items.split_last().ok_or_else(malformed)?;
    let Value::Int(now) = now else { return Err(malformed()) };
    let mut commands: Vec<String> = commands
        .iter()
        .map(redis::from_redis_value_ref)
        .collect::<Result<_, _>>()
        .map_err(|e| malformed().with_source(e))?;
    commands.dedup();
    Ok((*now, commands))
}

fn replicas(server: &Server, link: &Link) -> Finding {
    let mut finding = standing("replicas", server.profile.loses(&link.facts));
    if link.facts.is_replica() {
        finding.level = Level::Bad;
    }
    finding
}

/// Tries whether replicas acknowledge a write. `None` if they need not.
async fn acknowledgements(
    server: &Arc<Server>,
    link: &Arc<Link>,
    call: &Call,
    name: &Name,
) -> Option<Finding> {
    link.acknowledged.as_ref()?;
    let (keys, script) = (server.keys(name), &server.layout.scripts().try_rights);
    let kept = server.keep(link, call, script, try_rights(server, link, &keys)).await;
    let (level, words) = match kept {
        Ok(kept @ Acknowledged::Enough) => (Level::Good, kept.to_string()),
        Ok(kept @ Acknowledged::By { .. }) => (Level::Bad, format!("no lock can be taken: {kept}")),
        Err(e) => return Some(Finding::of_failure("acknowledgements", &e)),
    };
    Some(Finding::new("acknowledgements", level, words))
}

fn standing(subject: &'static str, standing: Fitness) -> Finding {
    match standing {
        Fitness::Good(words) => Finding::new(subject, Level::Good, words),
        Fitness::Limited(words) => Finding::new(subject, Level::Warning, words),
        Fitness::Unknown(words) => {
            Finding::new(subject, Level::Unknown, format!("{words} (INFO and CONFIG GET would show it)"))
        }
    }
}

async fn push(server: &Server, call: &Call, name: &Name) -> Finding {
    match server.feed.listen(name, Topic::releases(name, &server.keys(name).releases()), call).await {
        Ok(_) => Finding::new("push", Level::Good, "waiters are woken by a release"),
        Err(e) if e.kind() == ErrorKind::Unsupported => Finding::new("push", Level::Warning, e.message()),
        Err(e) => Finding::new("push", Level::Unknown, e.message()),
    }
}

async fn revokes(server: &Server, call: &Call) -> Finding {
    let unused_owner = Owner::mint(&server.random);
    match server.watch(unused_owner, call).await {
        Ok(_) => Finding::new("revokes", Level::Good, "a holder is told at once that its lock was revoked"),
        Err(e) if e.kind() == ErrorKind::Unsupported => Finding::new(
            "revokes",
            Level::Warning,
            format!(
                "this user may not subscribe to the channel \"{}\": a holder is told by its next renewal that its lock \
                 was revoked",
                server.revokes_channel().escape_ascii()
            ),
        ),
        Err(e) => Finding::new("revokes", Level::Unknown, e.message()),
    }
}
