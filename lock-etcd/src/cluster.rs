//! The cluster as the other modules see it: requests go to one member at a time, and to another one when that fails.
//! Every call ends in time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use etcd_client::{
    ConnectOptions, Error as EtcdError, GetOptions, GetResponse, LeaseGrantOptions, LeaseGrantResponse,
    LeaseStatus, LeaseTimeToLiveResponse, ResponseHeader, StatusResponse, Txn, TxnResponse,
};
use lock_core::toolkit::{Call, SharedConnection};
use lock_core::{Clock, Effect, Error, Result};
use tokio::sync::watch;

use crate::errors;
use crate::link::{Link, Members};

/// The cluster, reached through the member that answered last.
pub(crate) struct Cluster {
    connection: SharedConnection<Members>,
    pub(crate) clock: Clock,
    /// Counts how many links were given up.
    links: watch::Sender<u64>,
    /// The highest raft term that an answer has shown.
    term: watch::Sender<u64>,
    /// Why this server cannot keep locks at all.
    refusal: OnceLock<&'static str>,
}

impl Cluster {
    pub(crate) fn new(
        endpoints: Vec<String>,
        connecting: ConnectOptions,
        clock: Clock,
        patience: Duration,
    ) -> Cluster {
        Cluster {
            connection: SharedConnection::new(Members::new(endpoints, connecting, patience)),
            clock,
            links: watch::Sender::new(0),
            term: watch::Sender::new(0),
            refusal: OnceLock::new(),
        }
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    pub(crate) async fn txn(&self, call: &Call, txn: Txn) -> Result<TxnResponse, RequestError> {
        let answer = self
            .ask(call, |link| {
                let (mut kv, txn) = (link.client.kv_client(), txn.clone());
                async move { kv.txn(txn).await }
            })
            .await?;
        self.note_header_term(answer.header());
        Ok(answer)
    }

    pub(crate) async fn get(
        &self,
        call: &Call,
        key: &[u8],
        options: GetOptions,
    ) -> Result<GetResponse, RequestError> {
        let answer = self
            .ask(call, |link| {
                let (mut kv, key, options) = (link.client.kv_client(), key.to_vec(), options.clone());
                async move { kv.get(key, Some(options)).await }
            })
            .await?;
        self.note_header_term(answer.header());
        Ok(answer)
    }

    pub(crate) async fn grant(
        &self,
        call: &Call,
        id: i64,
        seconds: i64,
    ) -> Result<LeaseGrantResponse, RequestError> {
        let answer = self
            .ask(call, |link| {
                let mut leases = link.client.lease_client();
                async move { leases.grant(seconds, Some(LeaseGrantOptions::new().with_id(id))).await }
            })
            .await?;
        self.note_header_term(answer.header());
        Ok(answer)
    }

    pub(crate) async fn revoke(&self, call: &Call, lease: i64) -> Result<(), RequestError> {
        let revoking = |link: &Link| {
            let mut leases = link.client.lease_client();
            async move { leases.revoke(lease).await }
        };
        self.ask(call, revoking).await.map(drop)
    }

    pub(crate) async fn time_to_live(
        &self,
        call: &Call,
        lease: i64,
    ) -> Result<LeaseTimeToLiveResponse, RequestError> {
        self.ask(call, |link| {
            let mut leases = link.client.lease_client();
            async move { leases.time_to_live(lease, None).await }
        })
        .await
    }

    /// Returns the ids of all leases that exist. A member lists the leases that it knows of, and may lag behind. But it
    /// is never behind what it has read through raft, so this reads first, and asks the same member.
    pub(crate) async fn leases(&self, call: &Call, readable: &[u8]) -> Result<Vec<i64>, RequestError> {
        loop {
            let read = self.get(call, readable, GetOptions::new().with_keys_only()).await?;
            let answer = self
                .ask(call, |link| {
                    let mut leases = link.client.lease_client();
                    async move { leases.leases().await }
                })
                .await?;
            let member = |header: Option<&ResponseHeader>| header.map(ResponseHeader::member_id);
            if member(read.header()) == member(answer.header()) {
                return Ok(answer.leases().iter().map(LeaseStatus::id).collect());
            }
        }
    }

    /// Returns what a member says about itself.
    pub(crate) async fn status(&self, call: &Call) -> Result<StatusResponse, RequestError> {
        self.ask(call, |link| {
            let mut maintenance = link.client.maintenance_client();
            async move { maintenance.status().await }
        })
        .await
    }

    /// Sends a request to the member that answered last. If that member has surely done nothing, the next one is asked.
    /// A request that may have been carried out is not repeated.
    async fn ask<T, F>(&self, call: &Call, asking: impl Fn(&Link) -> F) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, EtcdError>>,
    {
        let mut asked = 0;
        loop {
            let link = self.link(call).await.map_err(|e| RequestError::NotDone(e.not_applied()))?;
            let Some(answer) = call.within(asking(&link)).await else {
                self.give_up_if_silent(&link, call);
                return Err(RequestError::Other(call.out_of_time(Effect::Unknown)));
            };
            let error = match answer {
                Ok(answer) => {
                    link.note_answer(&self.clock);
                    return Ok(answer);
                }
                Err(error) => error,
            };
            asked += 1;
            if errors::is_of_connection(&error) || errors::has_no_login(&error) {
                self.give_up(&link);
            } else {
                link.note_answer(&self.clock);
            }
            if errors::is_worth_another_try(&error) && asked < self.tries() {
                continue;
            }
            return Err(match errors::is_without_lease(&error) {
                true => RequestError::NoLease,
                false if errors::is_granted_already(&error) => RequestError::LeaseExists,
                false if errors::was_not_done(&error) => RequestError::NotDone(errors::asking(error)),
                false => RequestError::Other(errors::asking(error)),
            });
        }
    }

    /// Returns the number of tries of a request: one per member, and at least one more for a new login.
    fn tries(&self) -> usize {
        self.members().endpoints().len().max(2)
    }

    // ---- links ------------------------------------------------------------------------------------------------------

    /// Returns the link in use, or opens one. If a member cannot be reached, the next one is tried, each of them once.
    /// On a new link nothing was sent yet, except the login if the client has a user.
    pub(crate) async fn link(&self, call: &Call) -> Result<Arc<Link>> {
        for _ in 1..self.members().endpoints().len() {
            match self.connection.get(call).await {
                Err(e) if e.is_transient() && !call.is_over() => {}
                outcome => return outcome,
            }
        }
        self.connection.get(call).await
    }

    fn members(&self) -> &Members {
        self.connection.connector()
    }

    /// Gives up a link that has answered no request since the call began.
    pub(crate) fn give_up_if_silent(&self, link: &Arc<Link>, call: &Call) {
        if !link.has_answered_since(call.began()) {
            self.give_up(link);
        }
    }

    /// Gives up a link: the next call opens a connection to the next member.
    pub(crate) fn give_up(&self, link: &Arc<Link>) {
        if self.connection.give_up(link) {
            self.links.send_modify(|links| *links += 1);
        }
    }

    /// Returns a receiver that changes whenever a link is given up.
    pub(crate) fn links(&self) -> watch::Receiver<u64> {
        self.links.subscribe()
    }

    // ---- terms ------------------------------------------------------------------------------------------------------

    pub(crate) fn note_header_term(&self, header: Option<&ResponseHeader>) {
        self.note_term(header.map_or(0, ResponseHeader::raft_term));
    }

    pub(crate) fn note_term(&self, term: u64) {
        if term > *self.term.borrow() {
            self.term.send_if_modified(|highest| std::mem::replace(highest, term.max(*highest)) < term);
        }
    }

    /// Notes the term in which a lease was granted. A term below an earlier one means another cluster: all data was
    /// lost.
    pub(crate) fn set_term(&self, term: u64) {
        self.term.send_if_modified(|highest| std::mem::replace(highest, term) != term);
    }

    /// Returns the highest raft term that an answer has shown.
    pub(crate) fn term(&self) -> u64 {
        *self.term.borrow()
    }

    /// Waits until an answer has shown a term above this one. Cancel safe.
    pub(crate) async fn wait_for_term_above(&self, term: u64) {
        // Cannot fail: `self` holds the sender.
        let _: Result<_, _> = self.term.subscribe().wait_for(|highest| *highest > term).await;
    }

    /// Notes why this server cannot keep locks. All later attempts fail with this reason.
    pub(crate) fn record_refusal(&self, why: &'static str) {
        self.refusal.get_or_init(|| why);
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.refusal.get().map_or(Ok(()), |why| Err(Error::unsupported(*why)))
    }
}

impl std::fmt::Debug for Cluster {
    /// Leaves out the user and the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("endpoints", &self.members().endpoints()).finish_non_exhaustive()
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The lease does not exist, or has ended. So nothing was done under it.
    NoLease,
    /// The lease that was to be granted exists already.
    LeaseExists,
    /// The request did not reach the server, or the server says that it did not carry it out.
    NotDone(Error),
    /// The request may have been carried out, whatever kind of error this is. An answer that cannot be read is no
    /// answer of the server.
    Other(Error),
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Error {
        match error {
            RequestError::NoLease => {
                Error::unavailable(Effect::NotApplied, "the client's lease on the server has ended")
            }
            RequestError::LeaseExists => Error::unavailable(Effect::NotApplied, "the lease exists already"),
            RequestError::NotDone(error) | RequestError::Other(error) => error,
        }
    }
}
