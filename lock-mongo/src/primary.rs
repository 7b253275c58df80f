//! Which server takes the writes, as the driver's monitoring tells, and what its clock said last.
//!
//! The members of a set have clocks of their own, and the driver chooses the member. An estimate is therefore of the
//! primary that gave it: with another primary it is forgotten, and the next attempt asks for the time first. An answer
//! counts only if the primary is still the one that the question went to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Instant};
use mongodb::bson::DateTime;
use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription};
use mongodb::options::ServerAddress;
use mongodb::ServerType;

use crate::profile::{Kind, Profile};

/// The server that takes the writes.
#[derive(Debug, Default)]
pub(crate) struct Primary(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    address: Option<ServerAddress>,
    term: Term,
    first: Option<Heard>,
    last: Option<Heard>,
}

/// Counts the primaries: what one of them said is not another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Term(u64);

/// A reading of the server's clock.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    /// The server's time minus ours, in microseconds.
    offset: i64,
}

/// How the server's clock went against ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drift {
    pub(crate) over: Duration,
    pub(crate) micros: i64,
}

impl Primary {
    /// Tells `primary` and `profile` what the driver finds out about its servers, and the user's own handler too.
    pub(crate) fn follow(
        primary: Arc<Primary>,
        profile: Arc<Profile>,
        others: Option<EventHandler<SdamEvent>>,
    ) -> EventHandler<SdamEvent> {
        EventHandler::callback(move |event| {
            if let SdamEvent::TopologyDescriptionChanged(change) = &event {
                primary.is_now(&change.new_description, &profile);
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

    fn is_now(&self, topology: &TopologyDescription, profile: &Profile) {
        let servers = topology.servers();
        let found = servers.iter().find_map(|(address, server)| match server.server_type() {
            ServerType::RsPrimary => Some((address, Kind::ReplicaSet)),
            ServerType::Standalone => Some((address, Kind::Standalone)),
            ServerType::Mongos | ServerType::LoadBalancer => Some((address, Kind::Sharded)),
            _ => None,
        });
        if let Some((_, kind)) = found {
            profile.learn(kind);
        }
        self.elect(found.map(|(address, _)| (*address).clone()));
    }

    /// The primary is another, or there is none. One that was only out of sight keeps its clock.
    fn elect(&self, address: Option<ServerAddress>) {
        let mut state = self.state();
        match (&state.address, address) {
            (_, None) => {}
            // The first one: whoever has been heard was it.
            (None, found) => state.address = found,
            (Some(known), Some(found)) if *known == found => {}
            (Some(_), found) => {
                *state = State { address: found, term: Term(state.term.0 + 1), first: None, last: None };
            }
        }
    }

    /// Before a question: whose answer it will be.
    pub(crate) fn term(&self) -> Term {
        self.state().term
    }

    /// Takes note of the server's time, in milliseconds, which an answer that has just arrived gave.
    ///
    /// It is paired with the moment after the answer, not the one before the request: the estimate then stands at the
    /// server's clock or behind it, and no deadline made of it lies beyond the end of a call's patience. Being refused
    /// for an estimate that is too far behind costs one more round trip; the other error would let an attempt take the
    /// lock after its caller has gone.
    pub(crate) fn hear(&self, clock: &Clock, asked_in: Term, now: i64) {
        let at = clock.now();
        let heard = Heard { at, offset: now.saturating_mul(1000).saturating_sub(micros(at)) };
        let mut state = self.state();
        if state.term == asked_in {
            state.first.get_or_insert(heard);
            state.last = Some(heard);
        }
    }

    /// The server's time at a moment of ours; `None` if this primary has not been heard yet.
    pub(crate) fn time(&self, at: Instant) -> Option<DateTime> {
        let heard = self.state().last?;
        Some(DateTime::from_millis(micros(at).saturating_add(heard.offset).div_euclid(1000)))
    }

    /// Whether an answer came after `moment`.
    pub(crate) fn has_answered_since(&self, moment: Instant) -> bool {
        self.state().last.is_some_and(|heard| heard.at > moment)
    }

    /// How its clock went against ours since it was heard first.
    pub(crate) fn drift(&self) -> Option<Drift> {
        let State { first, last, .. } = *self.state();
        let (first, last) = (first?, last?);
        Some(Drift { over: last.at.since(first.at), micros: last.offset - first.offset })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(at: Instant) -> i64 {
    i64::try_from(at.since_origin().as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(port: u16) -> Option<ServerAddress> {
        Some(ServerAddress::Tcp { host: "h".into(), port: Some(port) })
    }

    #[test]
    fn an_estimate_is_its_primarys() {
        let (clock, primary) = (Clock::system(), Primary::default());
        assert_eq!(primary.time(clock.now()), None);
        let before = primary.term();
        primary.elect(member(1));
        primary.hear(&clock, before, 5_000);
        assert!(primary.time(clock.now()).is_some_and(|time| time.timestamp_millis() >= 5_000));
        primary.elect(None);
        primary.elect(member(1));
        assert!(primary.time(clock.now()).is_some(), "it was only out of sight");
        primary.elect(member(2));
        assert_eq!(primary.time(clock.now()), None, "another member, another clock");
        primary.hear(&clock, before, 5_000);
        assert_eq!(primary.time(clock.now()), None, "the answer of the old one came late");
        primary.hear(&clock, primary.term(), 6_000);
        assert!(primary.time(clock.now()).is_some());
    }
}
