//! Redirections: to the member that has a slot by now, or to the one that a key is on its way to.

use std::sync::Arc;

use lock_core::toolkit::Call;
use lock_core::{Effect, Error, ErrorKind, Result};

use super::super::hash_slots::{Address, host_of};
use super::{Members, host_and_port};
use crate::errors::Redirect;
use crate::server::Server;

/// The member for another try of a request that was not carried out.
pub(crate) enum Next {
    /// From now on: it has the slot.
    Home(Arc<Server>),
    /// For this request alone: the slot is still another member's.
    Once(Arc<Server>),
}

/// The number of times that one call is redirected at most. Each redirection is an answer of a member, and nothing was
/// done.
const MOST_REDIRECTIONS: u32 = 5;

impl Members {
    /// Returns where this error of the member `by` leads, which is the call's `nth`. If it leads nowhere, returns it, with
    /// the member's address; after a member's silence, who has which slot is asked in the background.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        error: Error,
        nth: u32,
        by: &Server,
        call: &Call,
    ) -> Result<Next> {
        match Redirect::of(&error) {
            Some(_) if nth > MOST_REDIRECTIONS => Err(led_in_a_circle(error)),
            Some(Redirect::Moved { slot, address }) => {
                let address = match self.resolved(&address, by) {
                    Some(address) => address,
                    None => self.told_by_others(slot, by, call).await.ok_or_else(|| led_nowhere(error))?,
                };
                self.moved(slot, &address);
                self.server_at(&address).map(Next::Home)
            }
            Some(Redirect::Ask { address }) => {
                let address = self.resolved(&address, by).or_else(|| self.only_other_with_port(&address, by));
                let server = self.server_at(&address.ok_or_else(|| led_nowhere(error))?)?;
                Ok(Next::Once(Arc::new(server.asking())))
            }
            None => {
                if error.is_transient() {
                    // The member may be dead, and another one in its place.
                    self.read_slots_in_background();
                }
                Err(at_member(error, &by.address()))
            }
        }
    }

    /// Returns the address of another member, as a member reports it; `None` if it does not know the host.
    fn resolved(&self, told: &str, by: &Server) -> Option<Address> {
        let by = by.address();
        let (host, port) = host_and_port(told);
        Some(format!("{}:{}", host_of(host, host_and_port(&by).0)?, port?).into())
    }

    /// Asks the members who has this slot, and returns the one that does, unless it is the one that has sent us away.
    async fn told_by_others(&self, slot: u16, by: &Server, call: &Call) -> Option<Address> {
        self.read_slots(call).await.ok()?;
        let address = self.known().slots.member(slot).cloned()?;
        (*address != *by.address()).then_some(address)
    }

    /// Returns the only other member that is known to have this port.
    fn only_other_with_port(&self, told: &str, by: &Server) -> Option<Address> {
        let port = host_and_port(told).1?;
        let others = self.candidates().into_iter().filter(|address| **address != *by.address());
        let mut with_port = others.filter(|address| host_and_port(address).1 == Some(port));
        with_port.next().filter(|_| with_port.next().is_none())
    }
}

/// The error for members that lead to each other: they have not agreed yet who has the lock's slot.
fn led_in_a_circle(error: Error) -> Error {
    let message =
        format!("the members of the cluster do not agree who has the lock's slot: {}", error.message());
    Error::unavailable(Effect::NotApplied, message).with_source(error)
}

fn led_nowhere(error: Error) -> Error {
    let message = format!(
        "a member of the cluster leads to one whose host it does not know; set cluster-announce-hostname there, or \
         cluster-preferred-endpoint-type ip: {}",
        error.message()
    );
    Error::unavailable(Effect::NotApplied, message).with_source(error)
}

/// Returns the same error with the address of the member that it is about.
pub(crate) fn at_member(error: Error, address: &str) -> Error {
    let message = format!("the member {address}: {}", error.message());
    let named = match error.kind() {
        ErrorKind::Unavailable { effect } => Error::unavailable(effect, message),
        ErrorKind::Rejected => Error::rejected(message),
        _ => return error,
    };
    match error.retry_in() {
        Some(after) => named.with_retry_in(after).with_source(error),
        None => named.with_source(error),
    }
}
