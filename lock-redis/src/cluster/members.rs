//! The members of a cluster, each with a connection of its own, and which of them is asked about a lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::driver::{Call, Context, Finding, Level, Prefix};
use lock_core::{Effect, Error, Instant, Name, Result};
use redis::ConnectionInfo;
use tokio::sync::watch;

use super::slots::{Address, Slots};
use crate::errors::Redirect;
use crate::profile::Profile;
use crate::race::LOOK_AGAIN;
use crate::server::{Server, digits_of_a_client};
use crate::servers::{Servers, at_address};
use crate::settings::Redis;
use crate::side::slot;

/// The members, as one client knows them.
#[derive(Debug)]
pub(crate) struct Members {
    /// How a member is reached, but for its address.
    reached: ConnectionInfo,
    redis: Redis,
    context: Context,
    pub(crate) profile: Arc<Profile>,
    client_digits: Arc<str>,
    /// Those that the user named.
    named: Vec<Address>,
    known: Mutex<Known>,
    /// Held while the members are asked who has which slot: one question at a time.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// Tells of each change of what is known.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    slots: Slots,
    servers: BTreeMap<Address, Arc<Server>>,
    /// How often the slots were read.
    reads: u64,
    /// When the members were asked for them last.
    asked: Option<Instant>,
}

impl Members {
    /// `named` are the members that the user named, at least one.
    pub(crate) fn new(redis: Redis, named: &[ConnectionInfo], context: Context) -> Result<Members> {
        let [reached, ..] = named else { return Err(Error::invalid("a cluster's URL names a member")) };
        Ok(Members {
            reached: reached.clone(),
            profile: Arc::new(Profile::new(&redis)),
            client_digits: digits_of_a_client(&context.random),
            named: named.iter().map(|member| member.addr().to_string().into()).collect(),
            known: Mutex::default(),
            asking: Arc::default(),
            changes: watch::Sender::default(),
            redis,
            context,
        })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn prefix(&self) -> &Prefix {
        &self.redis.common.prefix
    }

    /// Returns the member that is asked about the lock with this name: the one that has it, or any if none is known. That
    /// one says which other has it.
    pub(crate) fn server_of(&self, name: &Name) -> Result<Arc<Server>> {
        let slot = slot(self.prefix().key(name).as_bytes());
        let address = self.known().slots.member(slot).cloned();
        self.server_at(&address.unwrap_or_else(|| self.named[0].clone()))
    }

    /// Returns the first member that the user named.
    pub(crate) fn first(&self) -> Result<Arc<Server>> {
        self.server_at(&self.named[0])
    }

    /// Returns the member to which a redirection leads.
    pub(crate) fn redirected(&self, redirect: &Redirect) -> Result<Arc<Server>> {
        match redirect {
            Redirect::Moved { slot, address } => {
                let address: Address = address.as_str().into();
                self.known().slots.moved(*slot, address.clone());
                self.changes.send_replace(());
                self.server_at(&address)
            }
            Redirect::Ask { address } => Ok(Arc::new(self.server_at(&address.as_str().into())?.asking())),
        }
    }

    /// Asks the members who has which slot, one after the other, until one answers.
    pub(crate) async fn read_slots(&self, call: &Call) -> Result<()> {
        let before = self.known().reads;
        let Some(_asking) = call.within(self.asking.lock()).await else {
            return Err(call.out_of_time(Effect::NotApplied));
        };
        if self.known().reads > before {
            return Ok(());
        }
        self.ask_for_slots(call).await
    }

    async fn ask_for_slots(&self, call: &Call) -> Result<()> {
        self.known().asked = Some(call.clock().now());
        let (candidates, mut troubles) = (self.candidates(), Vec::new());
        let share = call.left() / u32::try_from(candidates.len()).unwrap_or(u32::MAX).max(1);
        for address in candidates {
            match self.read_from(&address, &Call::begin(call.clock(), share.min(call.left()))).await {
                Ok(slots) => {
                    self.learn(slots);
                    return Ok(());
                }
                Err(error) => troubles.push((address, error)),
            }
        }
        Err(no_member(&troubles))
    }

    /// Does the same in the background, unless the members are being asked: a call that failed has no time left for it.
    pub(crate) fn read_slots_in_background(self: &Arc<Self>) {
        let Ok(asking) = self.asking.clone().try_lock_owned() else { return };
        let members = self.clone();
        tokio::spawn(async move {
            let _asking = asking;
            let call = Call::begin(&members.context.clock, members.context.patience);
            // If none answers, the next call that fails asks again.
            let _: Result<()> = members.ask_for_slots(&call).await;
        });
    }

    /// Checks that each member has as many replicas as have to acknowledge a grant.
    pub(crate) async fn check_acknowledgements(&self, call: &Call) -> Result<()> {
        if self.redis.acks.is_none() {
            return Ok(());
        }
        for address in self.candidates() {
            if !self.known().slots.all().contains(&address) {
                continue;
            }
            let link = self.server_at(&address)?.link(call).await?;
            link.check_acknowledgements().map_err(|e| {
                Error::unavailable(Effect::NotApplied, format!("the member {address}: {}", e.message()))
            })?;
        }
        Ok(())
    }

    /// Returns when another member than this one has the lock, as far as the members tell. They are asked again and again.
    ///
    /// Cancel safe.
    pub(crate) async fn until_moved(self: &Arc<Self>, name: &Name, from: &Server) {
        let (clock, mut changes) = (&self.context.clock, self.changes.subscribe());
        while !self.server_of(name).is_ok_and(|server| !server.is_same(from)) {
            let asked = self.known().asked;
            if asked.is_none_or(|asked| asked + LOOK_AGAIN <= clock.now()) {
                self.read_slots_in_background();
            }
            // An error would mean that the sender is gone, which is in these members.
            _ = clock.timeout(LOOK_AGAIN, changes.changed()).await;
        }
    }

    /// Says whether each slot has a member.
    pub(crate) fn finding(&self) -> Finding {
        let known = self.known();
        let members = known.slots.all().len();
        match known.slots.missing() {
            0 => Finding::new("cluster", Level::Good, format!("{members} members have all slots")),
            missing => Finding::new(
                "cluster",
                Level::Bad,
                format!("no member has {missing} of the slots: names in them can't be locked"),
            ),
        }
    }

    async fn read_from(&self, address: &Address, call: &Call) -> Result<Slots> {
        let server = self.server_at(address)?;
        let mut ask = redis::cmd("CLUSTER");
        let answer = server.ask(call, ask.arg("SLOTS")).await?;
        Slots::parse(&answer, host_and_port(address).0)
    }

    /// Takes over which member has which slot. Members that have none are forgotten: their claims keep them as long as
    /// they need them.
    fn learn(&self, slots: Slots) {
        let mut known = self.known();
        known.servers.retain(|address, _| slots.all().contains(address));
        known.slots = slots;
        known.reads += 1;
        drop(known);
        self.changes.send_replace(());
    }

    /// Returns the members in the order in which they are asked: those that have slots, then those that the user named.
    fn candidates(&self) -> Vec<Address> {
        let known = self.known();
        let with_slots = known.slots.all().into_iter().cloned();
        let mut all: Vec<Address> = with_slots.collect();
        for named in &self.named {
            if !all.contains(named) {
                all.push(named.clone());
            }
        }
        all
    }

    fn server_at(&self, address: &Address) -> Result<Arc<Server>> {
        let mut known = self.known();
        if let Some(server) = known.servers.get(address) {
            return Ok(server.clone());
        }
        let (host, port) = host_and_port(address);
        let port = port.ok_or_else(|| Error::rejected(format!("the cluster names a member {address:?}")))?;
        let reached = at_address(&self.reached, host.to_owned(), port);
        let redis = Redis { servers: Servers::One(reached), ..self.redis.clone() };
        let (context, profile, digits) =
            (self.context.clone(), self.profile.clone(), self.client_digits.clone());
        let server = Arc::new(Server::of_client(redis, context, profile, digits)?);
        known.servers.insert(address.clone(), server.clone());
        Ok(server)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that can panic runs under this lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn host_and_port(address: &str) -> (&str, Option<u16>) {
    match address.rsplit_once(':') {
        Some((host, port)) => (host.trim_matches(['[', ']']), port.parse().ok()),
        None => (address, None),
    }
}

fn no_member(troubles: &[(Address, Error)]) -> Error {
    let said: Vec<String> =
        troubles.iter().map(|(address, error)| format!("{address}: {}", error.message())).collect();
    let message = format!("no member of the cluster answers; {}", said.join("; "));
    match troubles.iter().all(|(_, error)| !error.is_transient()) && !troubles.is_empty() {
        true => Error::rejected(message),
        false => Error::unavailable(Effect::NotApplied, message),
    }
}
