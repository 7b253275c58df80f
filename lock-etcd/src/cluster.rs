//! The cluster as the other modules see it: requests go to one member at a time, and to another one when that fails.
//! Every call ends in time.
//!
//! An etcd-client that knows several members distributes requests over all of them, whether they are up or not. So each
//! of our etcd-clients knows one member, and this module decides which member is asked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use etcd_client::{
    Client, ConnectOptions, Error as EtcdError, GetOptions, GetResponse, LeaseGrantOptions,
    LeaseGrantResponse, LeaseStatus, LeaseTimeToLiveResponse, ResponseHeader, StatusResponse, Txn,
    TxnResponse,
};
use lock_core::driver::Call;
use lock_core::{Clock, Effect, Error, Instant, Result};
use tokio::sync::watch;

use crate::errors;

/// The cluster, reached through the member that answered last.
pub(crate) struct Cluster {
    endpoints: Vec<String>,
    connecting: ConnectOptions,
    pub(crate) clock: Clock,
    current: Mutex<Current>,
    /// Held while a connection is opened, so that only one is opened at a time.
    opening: tokio::sync::Mutex<()>,
    /// Counts how many links were given up.
    links: watch::Sender<u64>,
    /// The highest raft term that an answer has shown.
    term: watch::Sender<u64>,
    /// Why this server cannot keep locks at all.
    refusal: OnceLock<&'static str>,
}

struct Current {
    /// The member that the next connection goes to.
    endpoint: usize,
    link: Option<Arc<Link>>,
}

/// An etcd-client for one member.
pub(crate) struct Link {
    pub(crate) client: Client,
    endpoint: usize,
    /// When the last answer came, in nanoseconds of the clock.
    answered: AtomicU64,
}

/// How often an idle connection is pinged. By default, servers close a connection that pings more often than every 5 s.
const PING: Duration = Duration::from_secs(10);

impl Cluster {
    pub(crate) fn new(
        endpoints: Vec<String>,
        connecting: ConnectOptions,
        clock: Clock,
        patience: Duration,
    ) -> Cluster {
        let connecting = connecting
            .with_connect_timeout(patience)
            .with_keep_alive(PING, patience)
            .with_tcp_keepalive(PING)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        Cluster {
            endpoints,
            connecting,
            clock,
            current: Mutex::new(Current { endpoint: 0, link: None }),
            opening: tokio::sync::Mutex::default(),
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
            let link = self.link(call).await.map_err(|e| RequestError::NotDone(errors::not_done(e)))?;
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

    /// How many tries a request has: one per member, and at least one more for a new login.
    fn tries(&self) -> usize {
        self.endpoints.len().max(2)
    }

    // ---- links ------------------------------------------------------------------------------------------------------

    /// Returns the link in use, or opens one. On a new link nothing was sent yet, except the login if the client has a
    /// user.
    pub(crate) async fn link(&self, call: &Call) -> Result<Arc<Link>> {
        let mut last = None;
        for _ in 0..self.endpoints.len() {
            if let Some(link) = self.present() {
                return Ok(link);
            }
            let opening = call.within(self.opening.lock()).await;
            let one = opening.ok_or_else(|| call.out_of_time(Effect::NotApplied))?;
            if let Some(link) = self.present() {
                return Ok(link);
            }
            let endpoint = self.current().endpoint;
            let connecting = Client::connect([&self.endpoints[endpoint]], Some(self.connecting.clone()));
            let outcome = call.within(connecting).await;
            let connected = match outcome {
                Some(connected) => connected.map_err(errors::asking),
                None => Err(call.out_of_time(Effect::NotApplied)),
            };
            match connected {
                Ok(client) => {
                    return Ok(self.set_link(Link { client, endpoint, answered: AtomicU64::new(0) }));
                }
                Err(error) => {
                    self.current().endpoint = (endpoint + 1) % self.endpoints.len();
                    if !error.is_transient() {
                        return Err(error);
                    }
                    last = Some(error);
                }
            }
            drop(one);
        }
        Err(last.unwrap_or_else(|| call.out_of_time(Effect::NotApplied)))
    }

    fn set_link(&self, link: Link) -> Arc<Link> {
        let link = Arc::new(link);
        self.current().link = Some(link.clone());
        link
    }

    fn present(&self) -> Option<Arc<Link>> {
        self.current().link.clone()
    }

    /// Gives up a link that has answered no request since the call began.
    pub(crate) fn give_up_if_silent(&self, link: &Arc<Link>, call: &Call) {
        if !link.has_answered_since(call.began()) {
            self.give_up(link);
        }
    }

    /// Gives up a link: the next call opens a connection to the next member.
    pub(crate) fn give_up(&self, link: &Arc<Link>) {
        let mut current = self.current();
        if current.link.as_ref().is_some_and(|present| Arc::ptr_eq(present, link)) {
            current.link = None;
            current.endpoint = (link.endpoint + 1) % self.endpoints.len();
            drop(current);
            self.links.send_modify(|links| *links += 1);
        }
    }

    /// Returns a receiver that changes whenever a link is given up.
    pub(crate) fn links(&self) -> watch::Receiver<u64> {
        self.links.subscribe()
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Nothing that can panic runs under this lock.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Link {
    pub(crate) fn note_answer(&self, clock: &Clock) {
        self.answered.fetch_max(nanos(clock.now()), Ordering::Relaxed);
    }

    fn has_answered_since(&self, moment: Instant) -> bool {
        self.answered.load(Ordering::Relaxed) > nanos(moment)
    }
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX)
}

impl std::fmt::Debug for Cluster {
    /// Leaves out the user and the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("endpoints", &self.endpoints).finish_non_exhaustive()
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
