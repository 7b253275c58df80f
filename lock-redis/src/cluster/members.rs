//! The members of a cluster, each with a connection of its own, and which of them is asked about a lock.

mod redirections;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use lock_core::driver::{Context, Finding, Level};
use lock_core::toolkit::{Call, Prefix};
use lock_core::{Effect, Error, Instant, Name, Result};
use redis::ConnectionInfo;
use tokio::sync::watch;

pub(super) use self::redirections::Next;
use super::hash_slots::{Address, HashSlots, KnownHosts};
use crate::profile::Profile;
use crate::race::{self, LOOK_AGAIN};
use crate::server::{Server, digits_of_a_client};
use crate::servers::{Servers, at_address};
use crate::settings::Redis;
use crate::side::slot;

/// The members, as one client knows them.
#[derive(Debug)]
pub(crate) struct Members {
    /// The settings of a connection to a member, without its address.
    reached: ConnectionInfo,
    redis: Redis,
    context: Context,
    pub(crate) profile: Arc<Profile>,
    client_digits: Arc<str>,
    /// The members that the user named.
    named: Vec<Address>,
    known: Mutex<Known>,
    /// Held while the members are asked who has which slot: one question at a time.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// Tells of each change of what is known.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    slots: HashSlots,
    servers: BTreeMap<Address, Arc<Server>>,
    /// The number of times that the slots were read.
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

    /// Takes note that the slot belongs to the member at this address.
    fn moved(&self, slot: u16, address: &Address) {
        self.known().slots.moved(slot, address.clone());
        self.changes.send_replace(());
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
        let (candidates, mut troubles, mut in_part) = (self.candidates(), Vec::new(), None);
        let share = call.left() / u32::try_from(candidates.len()).unwrap_or(u32::MAX).max(1);
        for address in candidates {
            match self.read_from(&address, &Call::begin(call.clock(), share.min(call.left()))).await {
                Ok(slots) if slots.hosts() == KnownHosts::All => {
                    self.learn(slots);
                    return Ok(());
                }
                Ok(slots) => in_part = Some(slots),
                Err(error) => troubles.push((address, error)),
            }
        }
        match in_part {
            Some(slots) => {
                self.learn(slots);
                Ok(())
            }
            None => Err(none_of_them("no member of the cluster answers", &troubles)),
        }
    }

    /// Reads the slots in the background, unless the members are being asked: a call that failed has no time
    /// left for it.
    pub(crate) fn read_slots_in_background(self: &Arc<Self>) {
        let Ok(asking) = self.asking.clone().try_lock_owned() else { return };
        let members = self.clone();
        tokio::spawn(async move {
            let _asking = asking;
            let call = Call::begin(&members.context.clock, members.context.patience);
            // If none answers, the next call that fails retries.
            let _: Result<()> = members.ask_for_slots(&call).await;
        });
    }

    /// Checks that a member can be asked which has as many replicas as have to acknowledge a grant. The others may be down:
    /// their locks can't be taken, and those of this one can.
    pub(crate) async fn check_acknowledgements(&self, call: &Call) -> Result<()> {
        if self.redis.acks.is_none() {
            return Ok(());
        }
        let members = self.with_slots();
        let order: Vec<usize> = (0..members.len()).collect();
        let call = call.with_reserve();
        let outcome = race::first(&call, &order, |nth| self.check_member(&members[nth], &call)).await;
        outcome.map(drop).map_err(|failures| {
            let said = |(nth, error): (usize, Option<Error>)| {
                (members[nth].clone(), error.unwrap_or_else(|| call.out_of_time(Effect::NotApplied)))
            };
            let troubles: Vec<_> = failures.into_iter().map(said).collect();
            none_of_them("no member of the cluster can grant a lock", &troubles)
        })
    }

    /// Checks that this member can be asked, and has as many replicas as have to acknowledge a grant.
    async fn check_member(&self, address: &Address, call: &Call) -> Result<()> {
        self.server_at(address)?.link(call).await?.check_acknowledgements()
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

    /// Says whether each slot has a member, and each of these can be asked for a lock. Returns those that can't as well.
    pub(crate) async fn finding(&self, call: &Call) -> (Finding, Vec<Address>) {
        let (members, missing) = (self.with_slots(), self.known().slots.missing());
        let asked = members.iter().map(|address| async move {
            let outcome = call.within(self.check_member(address, call)).await;
            outcome.unwrap_or_else(|| Err(call.out_of_time(Effect::NotApplied))).map_err(|e| (address, e))
        });
        let troubles: Vec<_> = join_all(asked).await.into_iter().filter_map(Result::err).collect();
        let said = |(address, error): &(&Address, Error)| {
            format!("names at the member {address} can't be locked: {}", error.message())
        };
        let mut bad: Vec<String> = troubles.iter().map(said).collect();
        if missing > 0 {
            bad.insert(0, format!("no member has {missing} of the slots: names in them can't be locked"));
        }
        let finding = match bad.is_empty() {
            true => Finding::new("cluster", Level::Good, format!("{} members have all slots", members.len())),
            false => Finding::new("cluster", Level::Bad, bad.join("; ")),
        };
        (finding, troubles.into_iter().map(|(address, _)| address.clone()).collect())
    }

    async fn read_from(&self, address: &Address, call: &Call) -> Result<HashSlots> {
        let server = self.server_at(address)?;
        let mut ask = redis::cmd("CLUSTER");
        let answer = server.ask(call, ask.arg("SLOTS")).await?;
        HashSlots::parse(&answer, host_and_port(address).0)
    }

    /// Takes over which member has which slot. Members that have none are forgotten: their claims keep them as long as
    /// they need them.
    fn learn(&self, slots: HashSlots) {
        let mut known = self.known();
        known.servers.retain(|address, _| slots.all().contains(address));
        known.slots = slots;
        known.reads += 1;
        drop(known);
        self.changes.send_replace(());
    }

    fn with_slots(&self) -> Vec<Address> {
        self.known().slots.all().into_iter().cloned().collect()
    }

    /// Returns the members in the order in which they are asked: those that have slots, then those that the user named.
    fn candidates(&self) -> Vec<Address> {
        let mut all = self.with_slots();
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

fn none_of_them(what: &str, troubles: &[(Address, Error)]) -> Error {
    let said: Vec<String> =
        troubles.iter().map(|(address, error)| format!("{address}: {}", error.message())).collect();
    let message = format!("{what}; {}", said.join("; "));
    match troubles.iter().all(|(_, error)| !error.is_transient()) && !troubles.is_empty() {
        true => Error::rejected(message),
        false => Error::unavailable(Effect::NotApplied, message),
    }
}
