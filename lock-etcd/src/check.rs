//! `check`: can the cluster be reached, is its version supported, does the user have the rights?

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, StatusResponse, Txn, TxnOp};
use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use lock_core::{Error, ErrorKind, Label, Name, Owner, Result};
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::sessions::Sessions;
use crate::transactions;

/// Answers each question with one finding. Fails only if no member can be reached.
pub(crate) async fn check(shared: &Arc<Sessions>, patience: Duration) -> Result<Vec<Finding>> {
    let call = &Call::begin(shared.clock(), patience);
    let status = shared.cluster.status(call).await?;
    let name = Name::new(format!("check-{}", Owner::mint(&shared.random)))?;
    Ok(vec![
        reachable(&status),
        majority(&shared.cluster, call, &status).await,
        rights(shared, call, &name).await,
        push(shared, call, &name).await,
        clock(&shared.cluster),
    ])
}

/// Accepts etcd 3.4 and later: locks need nested transactions, and watches with ids that the client chooses.
pub(crate) fn version(version: &str) -> Result<()> {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match (major, minor) >= (3, 4) {
        true => Ok(()),
        false => Err(Error::rejected(format!("the server is etcd {version}; locks need etcd 3.4 or later"))),
    }
}

fn reachable(status: &StatusResponse) -> Finding {
    let said = status.version();
    match version(said) {
        Ok(()) => Finding::new("reachable", Level::Good, format!("etcd {said} answers")),
        Err(e) => Finding::new("reachable", Level::Bad, e.message()),
    }
}

/// Asks whether the cluster has a majority. A member's status speaks for that member alone, so this sends a read that
/// the leader has to confirm.
async fn majority(cluster: &Cluster, call: &Call, status: &StatusResponse) -> Finding {
    let errors = status.errors().join("; ");
    let confirmed = cluster.txn(call, Txn::new()).await.map_err(Error::from);
    match confirmed {
        Err(e) if e.is_transient() => Finding::new("majority", Level::Bad, e.message()),
        _ if status.leader() == 0 => {
            Finding::new("majority", Level::Bad, "the member that answered has no leader")
        }
        _ if errors.is_empty() => {
            Finding::new("majority", Level::Good, "a majority of the members agrees on a leader")
        }
        _ => Finding::new("majority", Level::Warning, errors),
    }
}

/// Sends the transaction that takes a lock, under a condition that never holds. The server checks the rights before the
/// condition.
async fn rights(shared: &Sessions, call: &Call, name: &Name) -> Finding {
    let owner = Owner::mint(&shared.random);
    let own = shared.layout.own(name, 0, owner, &Label::new("check"));
    let never = Compare::create_revision(own.key.clone(), CompareOp::Greater, 0);
    let tombstone = own.tombstone(1);
    let rehearsal = Txn::new().when([never]).and_then([
        TxnOp::put(own.key.clone(), own.value.clone(), None),
        TxnOp::get(own.queue.ours(), Some(transactions::newest())),
        TxnOp::get(own.queue.start(), Some(transactions::others(&own.queue))),
        TxnOp::put(tombstone, "", None),
    ]);
    match shared.cluster.txn(call, rehearsal).await.map_err(Error::from) {
        Ok(_) => Finding::new("rights", Level::Good, "this user may take and release locks under the prefix"),
        Err(e) => Finding::of_failure("rights", &e),
    }
}

async fn push(shared: &Sessions, call: &Call, name: &Name) -> Finding {
    let own = shared.layout.own(name, 0, Owner::mint(&shared.random), &Label::new("check"));
    match shared.watches.before(call, &own.key, &Arc::new(Notify::new())).await {
        Ok(_) => Finding::new("push", Level::Good, "waiters are woken by a release"),
        Err(e) if e.kind() == ErrorKind::Unsupported => Finding::new("push", Level::Warning, e.message()),
        Err(e) => Finding::new("push", Level::Unknown, e.message()),
    }
}

fn clock(cluster: &Cluster) -> Finding {
    match cluster.check() {
        Ok(()) => Finding::new(
            "clock",
            Level::Good,
            "leases end by the leader's monotonic clock, which is never set",
        ),
        Err(e) => Finding::new("clock", Level::Bad, e.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_rejected() {
        for good in ["3.4.0", "3.4.23", "3.5.0-rc.0", "3.10.1", "4.0.0"] {
            assert!(version(good).is_ok(), "{good}");
        }
        for bad in ["3.3.27", "2.3.8", "", "x"] {
            assert_eq!(version(bad).unwrap_err().kind(), ErrorKind::Rejected, "{bad}");
        }
    }
}
