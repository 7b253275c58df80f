//! The driver: opens claims, inspects locks, revokes them, checks the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::StatusResponse;
use lock_core::driver::{Claim, Context, Driver, Finding, Inspection, Request, Revocation, Revoked, When};
use lock_core::toolkit::{Call, CommonParameters, Opening, whole_seconds};
use lock_core::{Clock, Error, Info, Name, Result};

use crate::answers::{StoredKey, Window};
use crate::check;
use crate::claim::EtcdClaim;
use crate::cluster::{Cluster, RequestError};
use crate::foreign;
use crate::info::info;
use crate::keys::{self, Layout, Queue};
use crate::lease::Grant;
use crate::sessions::Sessions;
use crate::settings::Etcd;
use crate::transactions;
use crate::watches::Watches;

/// The driver of one cluster.
#[derive(Debug)]
pub(crate) struct EtcdDriver {
    shared: Arc<Sessions>,
    info: Arc<Info>,
}

impl EtcdDriver {
    pub(crate) async fn open(etcd: Etcd, context: Context) -> Result<EtcdDriver> {
        let address = etcd.address();
        let Etcd { endpoints, connecting, common, election } = etcd;
        let CommonParameters { prefix, opening, .. } = common;
        let Context { clock, random, patience, .. } = context;
        let cluster = Arc::new(Cluster::new(endpoints, connecting, clock.clone(), patience));
        if opening == Opening::Waits {
            let status = first_status(&cluster, &clock, &Call::begin(&clock, patience)).await?;
            check::version(status.version())?;
        }
        let layout = Layout::new(prefix, &random);
        let watches = Watches::new(cluster.clone(), random.clone(), patience);
        let shared = Arc::new(Sessions::new(cluster, layout, watches, random));
        Ok(EtcdDriver { shared, info: Arc::new(info(address, election)) })
    }

    /// Returns all places of a queue, the oldest first.
    async fn places(&self, call: &Call, queue: &Queue) -> Result<Vec<StoredKey>> {
        let cluster = &self.shared.cluster;
        let others = cluster.get(call, queue.start(), transactions::others(queue)).await?;
        let mut places = foreign::places(cluster, call, queue, Window::from(&others)).await?;
        let mut options = transactions::oldest().with_limit(PAGE);
        loop {
            let page = Window::from(&cluster.get(call, &queue.ours(), options).await?);
            let next = page.keys.last().map(|last| last.created + 1);
            places.extend(page.keys);
            let Some(next) = next.filter(|_| page.more) else { break };
            options = transactions::oldest().with_limit(PAGE).with_min_create_revision(next);
        }
        places.sort_by_key(|place| place.created);
        if let Some(first) = places.first_mut() {
            *first = foreign::with_its_owner(cluster, call, std::mem::take(first)).await?;
        }
        Ok(places)
    }

    /// Returns for how long a lease was granted, and how much of that is left. `None` if the lease has ended.
    async fn terms(&self, call: &Call, lease: i64) -> Result<Option<(Duration, Duration)>> {
        let terms = self.shared.cluster.time_to_live(call, lease).await?;
        let seconds = |ttl: i64| Duration::from_secs(ttl.unsigned_abs());
        Ok((terms.ttl() >= 0).then(|| (seconds(terms.granted_ttl()), seconds(terms.ttl()))))
    }

    /// Gives the holder's key another owner. The key stays at least until the holder's deadline.
    async fn replace_holder(
        &self,
        call: &Call,
        holder: &StoredKey,
        by: Vec<u8>,
        marker: Option<Vec<u8>>,
    ) -> Result<Revoked> {
        let Some((granted, _)) = self.terms(call, holder.lease).await? else { return Ok(Revoked::NotHeld) };
        // The holder may renew until its key is replaced. That happens after this grant, at most one call's time later.
        let seconds = whole_seconds(granted + call.left());
        let grant = Grant::new(&self.shared.random, seconds, self.shared.clock().now());
        let lease = grant.ask(&self.shared.cluster, call).await?;
        let replace = transactions::replace(holder, by, lease.id, marker);
        match self.shared.cluster.txn(call, replace).await {
            Ok(answer) if answer.succeeded() => Ok(Revoked::FreeIn(lease.ttl)),
            Ok(_) | Err(RequestError::NoLease) => {
                self.shared.cluster.revoke(call, lease.id).await.ok();
                Ok(Revoked::NotHeld)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, call: &Call, holder: &StoredKey, marker: Option<Vec<u8>>) -> Result<Revoked> {
        match self.shared.cluster.txn(call, transactions::remove(holder, marker)).await {
            Ok(answer) if answer.succeeded() => Ok(Revoked::Free),
            // The holder's lease has ended, and its key with it.
            Ok(_) | Err(RequestError::NoLease) => Ok(Revoked::NotHeld),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns what a member says about itself. Retries if the connection breaks before the answer, which changes nothing
/// on the server. Only what the server sends tells etcd from a server of another kind, and it is lost if the connection
/// breaks before the request has been written.
async fn first_status(cluster: &Cluster, clock: &Clock, call: &Call) -> Result<StatusResponse> {
    for _ in 1..STATUS_TRIES {
        match cluster.status(call).await.map_err(Error::from) {
            Err(e) if e.may_have_taken_effect() && call.left() > PAUSE => clock.sleep(PAUSE).await,
            answer => return answer,
        }
    }
    cluster.status(call).await.map_err(Error::from)
}

/// The number of times that a client asks for a first status. The answer of a server of another kind is lost about once
/// in thirty times, so hardly ever five times in a row. A port at which every connection is closed is told after a
/// tenth of a second.
const STATUS_TRIES: usize = 5;
/// The time for which a client waits before it asks for a status again.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of keys that one request of an inspection reads.
const PAGE: i64 = 512;

#[async_trait]
impl Driver for EtcdDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(EtcdClaim::new(self.shared.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = &Call::begin(self.shared.clock(), patience);
        let queue = self.shared.layout.queue(name);
        let places = self.places(call, &queue).await?;
        let Some((first, rest)) = places.split_first() else {
            return Ok(Inspection::new(None, Some(Vec::new())));
        };
        let mut holder = queue.entry(first);
        // The server answers in whole seconds, rounded down: zero says nothing about the last second.
        let left = self.terms(call, first.lease).await?.map(|(_, left)| left);
        holder.expires_in = left.filter(|left| !left.is_zero());
        let waiters = rest.iter().map(|place| queue.entry(place)).collect();
        Ok(Inspection::new(Some(holder), Some(waiters)))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder: shown, by, label, when, patience, .. } = revocation;
        let call = &Call::begin(self.shared.clock(), patience);
        let queue = self.shared.layout.queue(name);
        let places = self.places(call, &queue).await?;
        let Some(holder) = places.first().filter(|first| queue.entry(first).owner == shown) else {
            return Ok(Revoked::NotHeld);
        };
        if holder.lease == 0 {
            return Err(Error::rejected(
                "the key that holds the name has no lease, so no lock client has written it; delete it by hand",
            ));
        }
        let marker = keys::parse(&holder.value).map(|(owner, _)| queue.revoke_marker(owner, holder.created));
        match when {
            When::HoldersDeadline => self.replace_holder(call, holder, keys::value(by, &label), marker).await,
            When::Now => self.remove(call, holder, marker).await,
        }
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        let (layout, cluster) = (&self.shared.layout, &self.shared.cluster);
        let beginning = format!("{}{beginning}", layout.prefix.as_str()).into_bytes();
        let end = keys::end_of(&beginning);
        // etcd takes no empty key.
        let mut from = if beginning.is_empty() { vec![0] } else { beginning };
        let (mut names, mut read) = (BTreeSet::new(), 0);
        loop {
            let call = &Call::begin(self.shared.clock(), patience);
            let options = transactions::keys_only().with_range(end.clone()).with_limit(PAGE);
            let page = cluster.get(call, &from, options).await.map_err(|e| {
                Error::from(e).not_applied().and_says(&format!("; {read} keys were read before"))
            })?;
            let page = Window::from(&page);
            read += page.keys.len();
            names.extend(page.keys.iter().filter_map(|place| layout.name(&place.key)));
            match page.keys.last().filter(|_| page.more) {
                // The next key after it.
                Some(last) => from = [&last.key[..], &[0]].concat(),
                None => return Ok(names.into_iter().collect()),
            }
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        check::check(&self.shared, patience).await
    }
}
