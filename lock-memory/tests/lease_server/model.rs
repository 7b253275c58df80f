//! A lease server of one lock in its simplest form.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::LossReason;
use lock_core::driver::{Revoked, When};
use lock_memory::ServerTime;
use lock_memory::server::lease::{Answer, Request};

use crate::predecessor;

/// The operator that revokes locks.
pub(crate) const OPERATOR: u64 = 1000;

/// The owner of each lock, and the end of its lease. Tokens never fall and never repeat.
#[derive(Default)]
pub(crate) struct Model {
    holder: Option<(u64, ServerTime, u64)>,
    last_token: u64,
    /// The owner from which the operator has revoked the lock.
    stands_for: Option<u64>,
    revoked: HashMap<u64, ServerTime>,
    /// The latest deadline of the attempts that made up each owner's last grant.
    attempts: HashMap<u64, ServerTime>,
}

impl Model {
    /// Checks an answer of the server, and does the same as it.
    pub(crate) fn check(
        &mut self,
        now: ServerTime,
        n: u64,
        ttl: Duration,
        request: &Request,
        answer: &Answer,
    ) {
        let held = self.holder(now);
        match (request, answer) {
            (Request::Attempt { deadline, .. }, Answer::Refused) => {
                assert!(now > *deadline || self.revoked.get(&n).is_some_and(|last| deadline <= last));
            }
            (Request::Attempt { deadline, .. }, Answer::Granted { token, left }) => {
                assert!(now <= *deadline && self.revoked.get(&n).is_none_or(|last| deadline > last));
                let (mut ends, mut latest) = (now + ttl, *deadline);
                match held {
                    Some((holder, held_until, held_token)) => {
                        assert_eq!((holder, held_token), (n, token.get()));
                        ends = ends.max(held_until);
                        latest = latest.max(self.attempts[&n]);
                    }
                    None => assert!(token.get() > self.last_token && token.get() >= now.as_micros()),
                }
                assert_eq!(*left, ends.since(now));
                self.attempts.insert(n, latest);
                self.last_token = token.get();
                self.holder = Some((n, ends, token.get()));
            }
            (Request::Attempt { .. }, Answer::Busy { left }) => {
                let (holder, ends, _) = held.expect("busy without a holder");
                assert!(holder != n && *left == ends.since(now));
            }
            (Request::Succeed { deadline, .. }, Answer::Refused) => {
                assert!(now > *deadline || self.revoked.get(&n).is_some_and(|last| deadline <= last));
            }
            (Request::Succeed { deadline, .. }, Answer::Succeeded { token, left, .. }) => {
                assert!(now <= *deadline && self.revoked.get(&n).is_none_or(|last| deadline > last));
                assert_eq!(held.map(|(holder, ..)| holder), Some(predecessor(n)));
                assert!(token.get() > self.last_token && token.get() >= now.as_micros());
                assert_eq!(*left, ttl);
                self.attempts.insert(n, *deadline);
                self.last_token = token.get();
                self.holder = Some((n, now + ttl, token.get()));
            }
            (Request::Succeed { .. }, Answer::NotHeld) => {
                assert!(held.is_none_or(|(holder, ..)| holder != predecessor(n)));
            }
            (Request::Renew { .. }, Answer::Renewed { left }) => {
                let (holder, ends, token) = held.expect("renewed without a holder");
                let ends = ends.max(now + ttl);
                assert!(holder == n && *left == ends.since(now));
                self.holder = Some((n, ends, token));
            }
            (Request::Renew { .. }, Answer::Lost(cause)) => {
                assert!(held.is_none_or(|(holder, ..)| holder != n));
                match cause {
                    LossReason::Revoked => assert!(self.revoked.contains_key(&n)),
                    LossReason::Taken => assert!(held.is_some()),
                    _ => assert!(held.is_none()),
                }
            }
            (Request::Release { .. }, Answer::Released { .. }) => {
                assert!(self.is_its(held.expect("released without a holder").0, n));
                self.holder = None;
            }
            (Request::Release { .. }, Answer::NotHeld) => {
                assert!(held.is_none_or(|(holder, ..)| !self.is_its(holder, n)));
            }
            (Request::Revoke { .. }, Answer::Revoked(Revoked::NotHeld)) => {
                assert!(held.is_none_or(|(holder, ..)| holder != n));
            }
            (Request::Revoke { when, .. }, Answer::Revoked(revoked)) => {
                let (holder, ends, token) = held.expect("revoked without a holder");
                assert_eq!(holder, n);
                // Only the last revoke is remembered.
                self.revoked = HashMap::from([(n, self.attempts[&n])]);
                match when {
                    When::Now => self.holder = None,
                    When::HoldersDeadline => {
                        assert_eq!(*revoked, Revoked::FreeIn(ends.since(now)));
                        self.holder = Some((OPERATOR, ends, token));
                        self.stands_for = Some(n);
                    }
                }
            }
            (request, answer) => panic!("{request:?} was answered {answer:?}"),
        }
    }

    fn holder(&self, now: ServerTime) -> Option<(u64, ServerTime, u64)> {
        self.holder.filter(|(_, ends, _)| *ends > now)
    }

    /// Returns whether owner `n` may release what `holder` holds.
    fn is_its(&self, holder: u64, n: u64) -> bool {
        holder == n || (holder == OPERATOR && self.stands_for == Some(n))
    }
}
