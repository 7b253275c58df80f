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

use super::plan::{NAMES, Seat, Step, Term, Whose};

/// The label of the owner that revokes.
pub(super) const REVOKER: &str = "the revoker";
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the notification of a release may take.
const NEWS: Duration = Duration::from_secs(1);

/// How long leases are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) short: Duration,
    pub(super) long: Duration,
}

impl Terms {
    fn of(self, term: Term) -> Duration {
        match term {
            Term::Short => self.short,
            Term::Long => self.long,
        }
    }
}

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

/// How a token compares with those that were granted before.
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
    /// Whether the token is the highest that was granted, if a token is shown.
    pub(super) has_last_token: Option<bool>,
    pub(super) left: Option<Duration>,
}

/// A server, and the claims on it.
#[derive(Debug)]
pub(super) struct Side {
    clients: Vec<Client>,
    names: Vec<Name>,
    terms: Terms,
    seated: BTreeMap<Seat, Seated>,
    /// The highest token of each name.
    tokens: [Option<FencingToken>; NAMES],
    /// All holders that were shown of each name, by label, because servers write owners differently.
    shown: [BTreeMap<String, OwnerBytes>; NAMES],
    minted: u32,
}

#[derive(Debug)]
struct Seated {
    claim: Box<dyn Claim>,
    token: Option<FencingToken>,
    listens: bool,
    has_released: bool,
}

impl Side {
    /// Gives the clients to the claimants in turn.
    pub(super) fn new(clients: Vec<Client>, names: Vec<Name>, terms: Terms) -> Side {
        let (seated, tokens, shown) = Default::default();
        Side { clients, names, terms, seated, tokens, shown, minted: 0 }
    }

    /// Takes a step and returns its result; `None` if there was nothing to do.
    pub(super) async fn take(&mut self, step: Step) -> Result<Option<Said>> {
        match step {
            Step::Attempt(seat, term, waits) => self.attempt(seat, term, waits).await.map(Some),
            Step::Listen(seat) => self.listen(seat).await,
            Step::Renew(seat, term) => self.renew(seat, term).await,
            Step::Release(seat) => self.release(seat).await,
            Step::Inspect(name) => self.inspect(name).await.map(Some),
            Step::Revoke(name, whose, when) => self.revoke(name, whose, when).await,
            Step::Outlive(_) => Ok(None),
        }
    }

    /// Returns the seats that listen for this name.
    pub(super) fn listeners(&self, name: usize) -> BTreeSet<Seat> {
        let listening = self.seated.iter().filter(|(seat, seated)| seat.name == name && seated.listens);
        listening.map(|(seat, _)| *seat).collect()
    }

    /// Whether the claim of this seat is notified of a release.
    pub(super) async fn hears(&mut self, seat: Seat) -> bool {
        let Some(seated) = self.seated.get_mut(&seat) else { return false };
        tokio::time::timeout(NEWS, seated.claim.changed()).await.is_ok()
    }

    /// Releases everything that is left.
    pub(super) async fn clear(&mut self) {
        for seated in self.seated.values_mut() {
            let _: Result<Release> = seated.claim.release().await;
        }
    }

    async fn attempt(&mut self, seat: Seat, term: Term, waits: Queueing) -> Result<Said> {
        if self.seated.get(&seat).is_none_or(|seated| seated.has_released) {
            let claim = self.claim(seat, term, waits);
            let seated = Seated { claim, token: None, listens: false, has_released: false };
            self.seated.insert(seat, seated);
        }
        let seated = self.seated.get_mut(&seat).expect("just seated");
        match seated.claim.attempt().await? {
            Attempt::Granted(grant) => {
                seated.listens = false;
                let last = self.tokens[seat.name].replace(grant.token);
                let own = seated.token.replace(grant.token);
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

    fn claim(&mut self, seat: Seat, term: Term, waits: Queueing) -> Box<dyn Claim> {
        self.minted += 1;
        let client = &self.clients[self.client_of(seat)];
        let (ttl, label) = (self.terms.of(term), format!("owner {}", self.minted));
        let terms = claims::Terms { ttl, patience: PATIENCE, waits, label: &label };
        claims::claim(client, self.names[seat.name].as_str(), terms)
    }

    fn client_of(&self, seat: Seat) -> usize {
        seat.claimant % self.clients.len()
    }

    /// Listens as the core does: with a claim that has found the lock held and does not hold it, and with one claim of
    /// each client for a name. The other callers of that client queue behind that claim.
    async fn listen(&mut self, seat: Seat) -> Result<Option<Said>> {
        let client = self.client_of(seat);
        if self.listeners(seat.name).iter().any(|other| self.client_of(*other) == client) {
            return Ok(None);
        }
        let Some(seated) = self.seated.get_mut(&seat) else { return Ok(None) };
        if seated.has_released || seated.token.is_some() {
            return Ok(None);
        }
        match seated.claim.listen().await {
            Ok(()) => seated.listens = true,
            Err(e) if e.kind() == ErrorKind::Unsupported => return Ok(Some(Said::CannotPush)),
            Err(e) => return Err(e),
        }
        Ok(Some(Said::Listens))
    }

    async fn renew(&mut self, seat: Seat, term: Term) -> Result<Option<Said>> {
        let ttl = self.terms.of(term);
        let Some(seated) = self.seated.get_mut(&seat) else { return Ok(None) };
        Ok(Some(match seated.claim.renew(ttl).await? {
            Renewal::Held { valid_for, .. } => Said::Held { left: valid_for },
            Renewal::Lost(cause) => {
                let holder = self.holder(seat.name).await?.holder.and_then(|entry| entry.label);
                Said::Lost { cause, holder }
            }
        }))
    }

    async fn release(&mut self, seat: Seat) -> Result<Option<Said>> {
        let client = self.client_of(seat);
        let elsewhere = self.listeners(seat.name).iter().any(|other| self.client_of(*other) != client);
        let Some(seated) = self.seated.get_mut(&seat) else { return Ok(None) };
        (seated.has_released, seated.listens) = (true, false);
        Ok(Some(match seated.claim.release().await? {
            Release::Released { others } => Said::Released { others, elsewhere },
            Release::NotHeld => Said::NotHeld,
        }))
    }

    async fn holder(&mut self, name: usize) -> Result<Inspection> {
        let inspection = self.clients[0].driver().inspect(&self.names[name], PATIENCE).await?;
        if let Some(Entry { owner, label: Some(label), .. }) = &inspection.holder {
            self.shown[name].insert(label.clone(), owner.clone());
        }
        Ok(inspection)
    }

    async fn inspect(&mut self, name: usize) -> Result<Said> {
        let Inspection { holder, waiters } = self.holder(name).await?;
        let holder = holder.map(|Entry { label, token, expires_in, .. }| Shown {
            label,
            has_last_token: token.map(|token| Some(token) == self.tokens[name]),
            left: expires_in,
        });
        Ok(Said::Shown { holder, waiters: waiters.map(|waiters| waiters.len()) })
    }

    async fn revoke(&mut self, name: usize, whose: Whose, when: When) -> Result<Option<Said>> {
        let present = self.holder(name).await?.holder;
        let label = present.as_ref().and_then(|entry| entry.label.clone());
        let holder = match whose {
            Whose::Present => present.map(|entry| entry.owner),
            Whose::Earlier => {
                let mut earlier = self.shown[name].iter().filter(|(of, _)| Some(*of) != label.as_ref());
                earlier.next().map(|(_, owner)| owner.clone())
            }
        };
        let Some(holder) = holder else { return Ok(None) };
        let (by, label) = (Owner::mint(&Random::system()), Label::new(REVOKER));
        let revocation = Revocation { holder, by, label, when, patience: PATIENCE };
        let revoked = self.clients[0].driver().revoke(&self.names[name], revocation).await?;
        Ok(Some(Said::Revoked(revoked)))
    }
}
