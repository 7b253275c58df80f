//! The driver: opens claims, inspects holders and waiters, revokes locks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Claim, Context, Driver, Entry, Finding, Inspection, Request, Revocation, Revoked, When,
};
use lock_core::toolkit::{Call, CommonParameters, Opening, Process};
use lock_core::{Clock, Error, FencingToken, Info, Name, OwnerBytes, Result};
use tokio::runtime::Handle;
use zookeeper_client::{Acls, Error as ZkError, MultiReadResult, Stat};

use crate::check;
use crate::claim::ZkClaim;
use crate::directory::{Directory, Folder};
use crate::ensemble::Ensemble;
use crate::errors;
use crate::kind::Kind;
use crate::layout::{self, NodeData};
use crate::link::{Failure, Link, Site};
use crate::sessions::Sessions;
use crate::settings::ZooKeeper;

/// The process whose connections the client crate serves, by async-io's thread.
static SERVED: OnceLock<Process> = OnceLock::new();

/// The driver of one ensemble.
#[derive(Debug)]
pub(crate) struct ZkDriver {
    pub(crate) folder: Arc<Folder>,
    pub(crate) ensemble: Arc<Ensemble>,
    pub(crate) is_encrypted: bool,
    pub(crate) clock: Clock,
    sessions: Arc<Sessions>,
}

impl ZkDriver {
    pub(crate) async fn open(zookeeper: ZooKeeper, context: Context) -> Result<ZkDriver> {
        Process::must_be_first(
            &SERVED,
            "one thread of that process serves all its connections of ZooKeeper",
        )?;
        let address = zookeeper.address();
        let ZooKeeper { reach, chroot, common, tick } = zookeeper;
        let CommonParameters { prefix, opening, .. } = common;
        let Context { clock, random, patience, .. } = context;
        let acls = if reach.has_login() { Acls::creator_all() } else { Acls::anyone_all() };
        let is_encrypted = reach.is_encrypted();
        let (runtime, process) = (Handle::current(), Process::this());
        let site = Site { reach: Arc::new(reach), clock: clock.clone(), random, runtime, process };
        let ensemble = Arc::new(Ensemble::new(site, address, tick));
        if opening == Opening::Waits {
            ensemble.granted(&Call::begin(&clock, patience)).await?;
        }
        let folder = Arc::new(Folder::new(chroot, prefix, acls));
        let sessions = Arc::new(Sessions::new(ensemble.clone(), folder.path().to_owned()));
        Ok(ZkDriver { folder, ensemble, is_encrypted, clock, sessions })
    }

    /// Reads all tickets of the queue, with their data.
    async fn read(directory: &Directory, link: &Link, call: &Call) -> Result<Vec<ReadTicket>, Failure> {
        // After this, the read shows all that another client was told before, whichever servers the two are connected
        // to.
        let syncing = link.client.sync("/");
        let queue = directory.queue(link, call);
        link.ask(call, syncing).await?;
        let mut found = Vec::new();
        for tickets in queue.await?.chunks(AT_ONCE) {
            let mut reading = link.client.new_multi_reader();
            for ticket in tickets {
                reading.add_get_data(&directory.node(&ticket.name)).map_err(Failure::Refused)?;
            }
            let read = link.ask(call, reading.commit()).await?;
            found.extend(read.into_iter().zip(tickets).filter_map(|(read, ticket)| match read {
                MultiReadResult::Data { stat, .. } if Kind::of(&ticket.name, &stat) == Kind::Other => None,
                MultiReadResult::Data { data, stat } => {
                    Some(ReadTicket { name: ticket.name.clone(), said: NodeData::parse(&data), stat })
                }
                // The node has gone meanwhile.
                _ => None,
            }));
        }
        Ok(found)
    }

    /// Marks the holder's node as revoked, or removes it, if it is still the node that was shown.
    async fn revoke_on(
        directory: &Directory,
        revocation: &Revocation,
        link: &Link,
        call: &Call,
    ) -> Result<Result<Revoked>, Failure> {
        let Revocation { holder, by, label, when, .. } = revocation;
        loop {
            let tickets = ZkDriver::read(directory, link, call).await?;
            let Some(first) = tickets.first().filter(|first| first.shown() == *holder) else {
                return Ok(Ok(Revoked::NotHeld));
            };
            let (path, version) = (directory.node(&first.name), Some(first.stat.version));
            if Kind::of(&first.name, &first.stat) == Kind::Persistent {
                return Ok(Err(errors::persistent_node(&path)));
            }
            let (outcome, revoked) = match (when, &first.said) {
                (When::Now, _) => (link.ask(call, link.client.delete(&path, version)).await, Revoked::Free),
                (When::HoldersDeadline, NodeData::Foreign) => return Ok(Err(is_foreign(&first.name))),
                (When::HoldersDeadline, said) => {
                    let left = said.timeout().unwrap_or_default();
                    let data = layout::revocation(by, label, left);
                    let writing = link.client.set_data(&path, &data, version);
                    (link.ask(call, writing).await.map(drop), Revoked::FreeIn(left))
                }
            };
            match outcome {
                Ok(()) => return Ok(Ok(revoked)),
                // Another client has changed the node first.
                Err(Failure::Refused(ZkError::BadVersion | ZkError::NoNode)) => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}

impl Drop for ZkDriver {
    /// Claims may live on, and with them the ensemble. But calls without a claim come through the driver alone.
    fn drop(&mut self) {
        self.ensemble.query_link.close();
    }
}

/// The number of nodes that are read in one request, at most.
const AT_ONCE: usize = 500;

/// A node in a queue, as it was read.
#[derive(Debug)]
struct ReadTicket {
    name: String,
    said: NodeData,
    stat: Stat,
}

impl ReadTicket {
    fn shown(&self) -> OwnerBytes {
        layout::shown(&self.name, &self.said)
    }

    fn into_entry(self) -> Entry {
        // Without `since`: the server tells when the node was created by its wall clock, but not what that clock shows
        // now. And without `expires_in`: the lease does not end while its session is kept.
        let mut entry = Entry::new(self.shown());
        entry.label = self.said.label().cloned();
        entry.token = u64::try_from(self.stat.czxid).ok().and_then(FencingToken::new);
        entry
    }
}

fn is_foreign(name: &str) -> Error {
    Error::unsupported(format!(
        "{name} is the node of {}, which would not notice a revoke. Breaking it now (--now) removes the node, and two may \
         run",
        layout::maker(name)
    ))
}

#[async_trait]
impl Driver for ZkDriver {
    fn info(&self) -> Arc<Info> {
        self.ensemble.info()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let directory = self.folder.of(&request.name);
        Box::new(ZkClaim::new(self.sessions.clone(), directory, request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let (call, directory) = (Call::begin(&self.clock, patience), self.folder.of(name));
        loop {
            let link = self.ensemble.query_link.link(&call).await?;
            let read = ZkDriver::read(&directory, &link, &call).await;
            let Some(tickets) =
                self.ensemble.query_link.settle(&link, &call, read).await.map_err(Error::not_applied)?
            else {
                continue;
            };
            let mut tickets = tickets.into_iter().map(ReadTicket::into_entry);
            let holder = tickets.next();
            return Ok(Inspection::new(holder, Some(tickets.collect())));
        }
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let (call, directory) = (Call::begin(&self.clock, revocation.patience), self.folder.of(name));
        loop {
            let link = self.ensemble.query_link.link(&call).await?;
            let outcome = ZkDriver::revoke_on(&directory, &revocation, &link, &call).await;
            if let Some(outcome) = self.ensemble.query_link.settle(&link, &call, outcome).await? {
                return outcome;
            }
        }
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        let call = Call::begin(&self.clock, patience);
        loop {
            let link = self.ensemble.query_link.link(&call).await?;
            let names = self.folder.names(&link, &call, beginning).await;
            let settled = self.ensemble.query_link.settle(&link, &call, names).await;
            if let Some(names) = settled.map_err(Error::not_applied)? {
                return Ok(names);
            }
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        check::check(self, patience).await
    }
}
