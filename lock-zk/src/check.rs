//! `check`: whether the ensemble is reachable, its version, the user's rights, and the ttls that it grants.

use std::time::Duration;

use lock_core::driver::{Finding, Level};
use lock_core::toolkit::{Call, HumanDuration};
use lock_core::{Error, Result};
use zookeeper_client::{CreateMode, Error as ZkError, Stat};

use crate::driver::ZkDriver;
use crate::errors::{self, OLDEST};
use crate::link::{Failure, Link};

/// Returns one finding per question. Fails only if no server can be reached at all.
pub(crate) async fn check(driver: &ZkDriver, patience: Duration) -> Result<Vec<Finding>> {
    let call = Call::begin(&driver.clock, patience);
    let version = loop {
        let link = driver.ensemble.query_link.link(&call).await?;
        let said = version(&link, &call).await;
        if let Some(version) =
            driver.ensemble.query_link.settle(&link, &call, said).await.map_err(Error::not_applied)?
        {
            break version;
        }
    };
    let server = &lock_core::driver::Driver::info(driver).server;
    let reachable = Finding::new("reachable", Level::Good, format!("ZooKeeper at {server}"));
    Ok(vec![
        reachable,
        version,
        encryption(driver),
        folder(driver, &call).await,
        rights(driver, &call).await,
        tick(driver, &call).await,
    ])
}

/// Finds the version by a request that only newer servers know: a server does not tell its version by this protocol.
async fn version(link: &Link, call: &Call) -> Result<Finding, Failure> {
    let users = link.ask(call, link.client.list_auth_users()).await;
    let level = match users {
        Ok(_) => return Ok(Finding::new("version", Level::Good, "3.7 or later")),
        Err(Failure::Refused(ZkError::Unimplemented | ZkError::UnexpectedErrorCode(_))) => Level::Warning,
        Err(Failure::Refused(_)) => Level::Unknown,
        Err(failure) => return Err(failure),
    };
    let message =
        format!("older than 3.7; this library needs {OLDEST} or later, and is not tested before 3.7");
    Ok(Finding::new("version", level, message))
}

fn encryption(driver: &ZkDriver) -> Finding {
    match driver.is_encrypted {
        true => Finding::new("encryption", Level::Good, "TLS"),
        false => Finding::new(
            "encryption",
            Level::Good,
            "none: an attacker that can read the network can read the password, and act as this user",
        ),
    }
}

/// Checks that the folder of the locks exists, or creates it.
async fn folder(driver: &ZkDriver, call: &Call) -> Finding {
    let path = driver.folder.path();
    match asked(driver, call, Probe::Folder).await {
        Ok(_) => Finding::new("folder", Level::Good, format!("{path} exists")),
        Err(e) => {
            let mut finding = Finding::of_failure("folder", &e);
            finding.message = format!("{path}: {}", e.message());
            finding
        }
    }
}

/// Checks that this user may create, read and remove nodes there.
async fn rights(driver: &ZkDriver, call: &Call) -> Finding {
    match asked(driver, call, Probe::Rights).await {
        Ok(Some(stat)) if stat.is_invalid() => {
            Finding::new("rights", Level::Bad, errors::too_old().message())
        }
        Ok(_) => Finding::new("rights", Level::Good, "this user may take and release locks"),
        Err(e) => Finding::of_failure("rights", &e),
    }
}

#[derive(Clone, Copy, Debug)]
enum Probe {
    Folder,
    Rights,
}

async fn asked(driver: &ZkDriver, call: &Call, what: Probe) -> Result<Option<Stat>> {
    loop {
        let link = driver.ensemble.query_link.link(call).await?;
        let outcome = match what {
            Probe::Folder => find_or_make(driver, &link, call).await.map(|()| None),
            Probe::Rights => try_rights(driver, &link, call).await.map(Some),
        };
        if let Some(out) = driver.ensemble.query_link.settle(&link, call, outcome).await? {
            return Ok(out);
        }
    }
}

async fn find_or_make(driver: &ZkDriver, link: &Link, call: &Call) -> Result<(), Failure> {
    match link.ask(call, link.client.check_stat(driver.folder.path())).await? {
        Some(_) => Ok(()),
        None => driver.folder.make(link, call).await,
    }
}

/// Tries the rights on a new node, which goes with the connection at the latest.
async fn try_rights(driver: &ZkDriver, link: &Link, call: &Call) -> Result<Stat, Failure> {
    let prefix = format!("{}/check-", driver.folder.path());
    let node = CreateMode::EphemeralSequential.with_acls(driver.folder.acls());
    let (stat, sequence) = link.ask(call, link.client.create(&prefix, &[], &node)).await?;
    let made = format!("{prefix}{sequence}");
    let read = link.ask(call, link.client.get_data(&made)).await;
    let listed = link.ask(call, link.client.list_children(driver.folder.path())).await;
    link.ask(call, link.client.delete(&made, None)).await?;
    read.and(listed)?;
    Ok(stat)
}

async fn tick(driver: &ZkDriver, call: &Call) -> Finding {
    let granted = match driver.ensemble.granted(call).await {
        Ok(granted) => granted,
        Err(e) => return Finding::new("tick", Level::Unknown, e.message()),
    };
    let (shortest, longest) = (granted.shortest_ttl(), granted.longest);
    let message = format!(
        "locks rely on pings within the ensemble that take {} at most (?tick=); ttls from {} to {}",
        HumanDuration(granted.tick),
        HumanDuration(shortest),
        HumanDuration(longest)
    );
    if longest < shortest {
        let why = "the servers grant no session that is long enough: raise maxSessionTimeout there, or set a shorter ?tick=";
        return Finding::new("tick", Level::Bad, format!("{message}: {why}"));
    }
    Finding::new("tick", Level::Good, message)
}
