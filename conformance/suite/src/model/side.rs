//! One of the two servers: takes steps through the contract, and describes the results in terms that both servers
//! share.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lock_core::driver::{
    Attempt, Busy, Claim, Entry, Inspection, Queueing, Release, Renewal, Revocation, Revoked, When,
};
use lock_core::{
    Client, ErrorKind, FencingToken, Label, LossReason, Name, Owner, OwnerBytes, Random, Result,
};

use crate::claims;

use super::plan::{ClaimSlot, Holder, NAMES, Step};

/// The label of the owner that revokes.
pub(super) const REVOKER: &str = "the revoker";
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest time that the notification of a release may take.
const NEWS: Duration = Duration::from_secs(1);

/// The result of a step.
#[derive(Clone, Debug)]
pub(super) enum Said {
    Granted {
        token: Rank,
        left: Duration,
    },
    Busy(Busy),
    Listens,
    CannotPush,
    Held {
        left: Duration,
    },
    Lost {
        cause: LossReason,
        holder: Option<String>,
    },
    /// Also says whether a claim of another client listens.
    Released {
        others: Option<bool>,
        elsewhere: bool,
    },
    NotHeld,
    Shown {
        holder: Option<Shown>,
        waiters: Option<usize>,
    },
    Revoked(Revoked),
}

/// The rank of a token among those that were granted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Above all of them.
    Risen,
    /// The token of this same owner, and the highest.
    Same,
    /// Anything else.
    Wrong,
}

/// A holder as people see it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) label: Option<String>,
    /// True if the token is the highest that was granted. `None` if no token is shown.
    pub(super) has_last_token: Option<bool>,
    pub(super) left: Option<Duration>,
}

/// A server, and the claims on it.
#[derive(Debug)]
pub(super) struct Side {
    clients: Vec<Client>,
    names: Vec<Name>,
    slots: BTreeMap<ClaimSlot, SlotState>,
    /// The highest token of each name.
    tokens: [Option<FencingToken>; NAMES],
    /// All holders that were shown of each name, by label, because servers write owners differently.
    shown: [BTreeMap<String, OwnerBytes>; NAMES],
    minted: u32,
}

#[derive(Debug)]
struct SlotState {
    claim: Box<dyn Claim>,
    token: Option<FencingToken>,
    listens: bool,
    has_released: bool,
}

impl Side {
    /// Gives the clients to the claimants in turn.
    pub(super) fn new(clients: Vec<Client>, names: Vec<Name>) -> Side {
        let (slots, tokens, shown) = Default::default();
        Side { clients, names, slots, tokens, shown, minted: 0 }
    }

    /// Takes a step and returns its result; `None` if there was nothing to do.
    pub(super) async fn take(&mut self, step: Step) -> Result<Option<Said>> {
        match step {
            Step::Attempt(slot, ttl, waits) => self.attempt(slot, ttl, waits).await.map(Some),
            Step::Listen(slot) => self.listen(slot).await,
            Step::Renew(slot, ttl) => self.renew(slot, ttl).await,
            Step::Release(slot) => self.release(slot).await,
            Step::Inspect(name) => self.inspect(name).await.map(Some),
            Step::Revoke(name, which_holder, when) => self.revoke(name, which_holder, when).await,
            Step::Outlive(_) => Ok(None),
        }
    }

    /// Returns the slots that listen for this name.
    pub(super) fn listeners(&self, name: usize) -> BTreeSet<ClaimSlot> {
        let listening = self.slots.iter().filter(|(slot, state)| slot.name == name && state.listens);
        listening.map(|(slot, _)| *slot).collect()
    }

    /// Returns whether the claim of this slot is notified of a release.
    pub(super) async fn hears(&mut self, slot: ClaimSlot) -> bool {
        let Some(state) = self.slots.get_mut(&slot) else { return false };
        tokio::time::timeout(NEWS, state.claim.changed()).await.is_ok()
    }

    /// Releases everything that is left.
    pub(super) async fn clear(&mut self) {
        for state in self.slots.values_mut() {
            let _: Result<Release> = state.claim.release().await;
        }
    }

    async fn attempt(&mut self, slot: ClaimSlot, ttl: Duration, waits: Queueing) -> Result<Said> {
        if self.slots.get(&slot).is_none_or(|state| state.has_released) {
            let claim = self.claim(slot, ttl, waits);
            let state = SlotState { claim, token: None, listens: false, has_released: false };
            self.slots.insert(slot, state);
        }
        let state = self.slots.get_mut(&slot).expect("just filled");
        match state.claim.attempt().await? {
            Attempt::Granted(grant) => {
                state.listens = false;
                let last = self.tokens[slot.name].replace(grant.token);
                let own = state.token.replace(grant.token);
                let token = match (last, own) {
                    (Some(last), Some(own)) if grant.token == own && own == last => Rank::Same,
                    (Some(last), _) if grant.token <= last => Rank::Wrong,
                    _ => Rank::Risen,
                };
                Ok(Said::Granted { token, left: grant.valid_for })
            }
            Attempt::Busy(busy) => Ok(Said::Busy(busy)),
        }
    }

    fn claim(&mut self, slot: ClaimSlot, ttl: Duration, waits: Queueing) -> Box<dyn Claim> {
        self.minted += 1;
        let client = &self.clients[self.client_of(slot)];
        let label = format!("owner {}", self.minted);
        let terms = claims::Terms { ttl, patience: PATIENCE, waits, label: &label };
        claims::claim(client, self.names[slot.name].as_str(), terms)
    }

    fn client_of(&self, slot: ClaimSlot) -> usize {
        slot.claimant % self.clients.len()
    }

    /// Listens as the core does: with a claim that has found the lock held and does not hold it, and with one claim of
    /// each client for a name. The other callers of that client queue behind that claim.
    async fn listen(&mut self, slot: ClaimSlot) -> Result<Option<Said>> {
        let client = self.client_of(slot);
        if self.listeners(slot.name).iter().any(|other| self.client_of(*other) == client) {
            return Ok(None);
        }
        let Some(state) = self.slots.get_mut(&slot) else { return Ok(None) };
        if state.has_released || state.token.is_some() {
            return Ok(None);
        }
        match state.claim.listen().await {
            Ok(()) => state.listens = true,
            Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(Some(Said::CannotPush)),
            Err(e) => return Err(e),
        }
        Ok(Some(Said::Listens))
    }

    async fn renew(&mut self, slot: ClaimSlot, ttl: Duration) -> Result<Option<Said>> {
        let Some(state) = self.slots.get_mut(&slot) else { return Ok(None) };
        Ok(Some(match state.claim.renew(ttl).await? {
            Renewal::Held { valid_for, .. } => Said::Held { left: valid_for },
            Renewal::Lost(cause) => {
                let holder = self.holder(slot.name).await?.holder.and_then(|entry| entry.label);
                let holder = holder.map(|label| label.to_string());
                Said::Lost { cause, holder }
            }
        }))
    }

    async fn release(&mut self, slot: ClaimSlot) -> Result<Option<Said>> {
        let client = self.client_of(slot);
        let elsewhere = self.listeners(slot.name).iter().any(|other| self.client_of(*other) != client);
        let Some(state) = self.slots.get_mut(&slot) else { return Ok(None) };
        (state.has_released, state.listens) = (true, false);
        Ok(Some(match state.claim.release().await? {
            Release::Released { others } => Said::Released { others, elsewhere },
            Release::NotHeld => Said::NotHeld,
        }))
    }

    async fn holder(&mut self, name: usize) -> Result<Inspection> {
        let inspection = self.clients[0].driver().inspect(&self.names[name], PATIENCE).await?;
        if let Some(Entry { owner, label: Some(label), .. }) = &inspection.holder {
            self.shown[name].insert(label.to_string(), owner.clone());
        }
        Ok(inspection)
    }

    async fn inspect(&mut self, name: usize) -> Result<Said> {
        let Inspection { holder, waiters, .. } = self.holder(name).await?;
        let holder = holder.map(|Entry { label, token, expires_in, .. }| Shown {
            label: label.map(|label| label.to_string()),
            has_last_token: token.map(|token| Some(token) == self.tokens[name]),
            left: expires_in,
        });
        Ok(Said::Shown { holder, waiters: waiters.map(|waiters| waiters.len()) })
    }

    async fn revoke(&mut self, name: usize, which_holder: Holder, when: When) -> Result<Option<Said>> {
        let present = self.holder(name).await?.holder;
        let label = present.as_ref().and_then(|entry| entry.label.as_deref());
        let holder = match which_holder {
            Holder::Present => present.map(|entry| entry.owner),
            Holder::Earlier => {
                let mut earlier = self.shown[name].iter().filter(|(of, _)| Some(of.as_str()) != label);
                earlier.next().map(|(_, owner)| owner.clone())
            }
        };
        let Some(holder) = holder else { return Ok(None) };
        let (by, label) = (Owner::mint(&Random::system()), Label::new(REVOKER));
        let revocation = Revocation::new(holder, by, label, when, PATIENCE);
        let revoked = self.clients[0].driver().revoke(&self.names[name], revocation).await?;
        Ok(Some(Said::Revoked(revoked)))
    }
}
