//! The server that takes the writes, as the `mongodb` crate's monitoring reports it, and the servers' last
//! clock readings.
//!
//! Each member of a set has a clock of its own, and the crate chooses the member. So there is one estimate for each
//! member: from its heartbeats, and for the primary also from its answers. An answer counts only if the primary is
//! still the one that the request was sent to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::toolkit::{Call, Drift, ServerClock};
use lock_core::{Clock, Error, Instant, Result};
use mongodb::ServerType;
use mongodb::bson::{DateTime, Document};
use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription};
use mongodb::options::ServerAddress;

use crate::profile::{Kind, Profile};

/// The server that takes the writes.
#[derive(Debug, Default)]
pub(crate) struct Primary(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    address: Option<ServerAddress>,
    term: Term,
    wire_version: Option<i32>,
    /// When a request was answered last. Heartbeats don't count: they have connections of their own.
    answered: Option<Instant>,
    clocks: HashMap<ServerAddress, ServerClock>,
}

/// The protocol version of MongoDB 4.4, the first release that returns the server's time with a `findAndModify`.
const OLDEST_WIRE_VERSION: i32 = 9;

/// The number of a primary, in the order of their elections. The time that one primary told says nothing about
/// another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Term(u64);

impl Primary {
    /// Returns a handler that passes what the `mongodb` crate finds out about its servers to `primary`, to `profile`
    /// and to the user's own handler.
    pub(crate) fn event_handler(
        primary: Arc<Primary>,
        profile: Arc<Profile>,
        clock: Clock,
        others: Option<EventHandler<SdamEvent>>,
    ) -> EventHandler<SdamEvent> {
        EventHandler::callback(move |event| {
            match &event {
                SdamEvent::TopologyDescriptionChanged(change) => {
                    primary.record_topology(&change.new_description, &profile);
                }
                SdamEvent::ServerHeartbeatSucceeded(beat) => {
                    // The field's name in answers to `hello`, and to the older `isMaster`.
                    let takes_writes = |name| beat.reply.get_bool(name) == Ok(true);
                    if ["isWritablePrimary", "ismaster"].into_iter().any(takes_writes) {
                        profile.learn_process(process_id(&beat.reply));
                    }
                    if let Ok(now) = beat.reply.get_datetime("localTime") {
                        primary.state().record_time(
                            beat.server_address.clone(),
                            &clock,
                            now.timestamp_millis(),
                        );
                    }
                }
                _ => {}
            }
            match &others {
                Some(EventHandler::Callback(other)) => other(event),
                Some(EventHandler::AsyncCallback(other)) => drop(tokio::spawn(other(event))),
                Some(EventHandler::TokioMpsc(other)) => {
                    let other = other.clone();
                    tokio::spawn(async move { other.send(event).await });
                }
                _ => {}
            }
        })
    }

    fn record_topology(&self, topology: &TopologyDescription, profile: &Profile) {
        let servers = topology.servers();
        let found = servers.iter().find_map(|(address, server)| {
            let kind = match server.server_type() {
                ServerType::RsPrimary => Kind::ReplicaSet,
                ServerType::Standalone => Kind::Standalone,
                ServerType::Mongos | ServerType::LoadBalancer => Kind::Sharded,
                _ => return None,
            };
            Some(((*address).clone(), kind, server.max_wire_version()))
        });
        // A primary that can't be reached for now stays the primary.
        let Some((address, kind, wire_version)) = found else { return };
        profile.learn(kind);
        let mut state = self.state();
        state.wire_version = wire_version;
        state.elect(address);
    }

    /// Returns the number of the present primary, which will answer a request that is sent now.
    pub(crate) fn term(&self) -> Term {
        self.state().term
    }

    /// Records the server's time, in milliseconds, from an answer that has just arrived.
    pub(crate) fn record_answer(&self, clock: &Clock, asked_in: Term, now: i64) {
        let mut state = self.state();
        state.answered = Some(clock.now());
        if let Some(address) = state.address.clone().filter(|_| state.term == asked_in) {
            state.record_time(address, clock, now);
        }
    }

    /// Records that an answer has just arrived.
    pub(crate) fn record_heard(&self, clock: &Clock) {
        self.state().answered = Some(clock.now());
    }

    /// Returns the server's time now, in milliseconds, or somewhat less; 0 if this primary has told no time yet.
    pub(crate) fn time(&self, now: Instant) -> i64 {
        self.clock().map_or(0, |clock| clock.at(now).div_euclid(1000))
    }

    /// Returns the end of the call by the server's clock, or a moment before it; `None` if this primary has told no
    /// time yet.
    pub(crate) fn deadline(&self, call: &Call) -> Option<DateTime> {
        Some(DateTime::from_millis(self.clock()?.deadline(call).div_euclid(1000)))
    }

    /// Returns whether a request was answered after `moment`.
    pub(crate) fn has_answered_since(&self, moment: Instant) -> bool {
        self.state().answered.is_some_and(|at| at > moment)
    }

    /// Returns the drift of its clock against the client's since it first told its time.
    pub(crate) fn drift(&self) -> Option<Drift> {
        Some(self.clock()?.drift())
    }

    /// `Rejected` if the server is too old.
    pub(crate) fn check_version(&self) -> Result<()> {
        match self.state().wire_version {
            Some(version) if version < OLDEST_WIRE_VERSION => Err(Error::rejected(
                "the server is older than MongoDB 4.4, the oldest version that can keep locks",
            )),
            _ => Ok(()),
        }
    }

    fn clock(&self) -> Option<ServerClock> {
        let state = self.state();
        state.clocks.get(state.address.as_ref()?).copied()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the identifier of the process that answered `hello`: each start of a server has another one.
pub(crate) fn process_id(hello: &Document) -> Option<String> {
    Some(hello.get_document("topologyVersion").ok()?.get_object_id("processId").ok()?.to_hex())
}

impl State {
    fn record_time(&mut self, address: ServerAddress, clock: &Clock, now: i64) {
        let (told, heard) = (now.saturating_mul(1000), clock.now());
        self.clocks.entry(address).or_insert_with(|| ServerClock::new(told, heard)).hear(told, heard);
    }

    fn elect(&mut self, address: ServerAddress) {
        if self.address.as_ref() != Some(&address) {
            self.address = Some(address);
            self.term = Term(self.term.0 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn member(port: u16) -> ServerAddress {
        ServerAddress::Tcp { host: "h".into(), port: Some(port) }
    }

    fn millis(primary: &Primary, clock: &Clock) -> Option<i64> {
        primary.deadline(&Call::begin(clock, Duration::from_secs(1))).map(DateTime::timestamp_millis)
    }

    #[test]
    fn an_estimate_is_its_members() {
        let (clock, primary) = (Clock::system(), Primary::default());
        assert_eq!(millis(&primary, &clock), None);
        primary.state().elect(member(1));
        let before = primary.term();
        primary.record_answer(&clock, before, 1_000_000);
        primary.state().record_time(member(2), &clock, 9_000_000);
        assert!(millis(&primary, &clock).is_some_and(|now| (1_000_000..2_000_000).contains(&now)));
        primary.state().elect(member(2));
        assert!(
            millis(&primary, &clock).is_some_and(|now| now >= 9_000_000),
            "another member has another clock"
        );
        primary.record_answer(&clock, before, 1_000_000);
        assert!(
            millis(&primary, &clock).is_some_and(|now| now >= 9_000_000),
            "a late answer of the old primary does not count"
        );
        primary.state().elect(member(3));
        assert_eq!(millis(&primary, &clock), None, "this member has told no time yet");
    }

    #[test]
    fn a_server_that_is_too_old_is_rejected() {
        let primary = Primary::default();
        assert!(primary.check_version().is_ok(), "the version is not known yet");
        primary.state().wire_version = Some(OLDEST_WIRE_VERSION - 1);
        assert!(primary.check_version().unwrap_err().message().contains("4.4"));
        primary.state().wire_version = Some(OLDEST_WIRE_VERSION);
        assert!(primary.check_version().is_ok());
    }
}
