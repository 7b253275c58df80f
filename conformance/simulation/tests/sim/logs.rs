//! Logs written by hand, for the checker's own tests.

use std::time::Duration;

use lock_core::driver::When;
use lock_core::{Ending, LossReason};
use lock_simulation::{
    CallId, Claim, Entry, FamilyName, Fate, Fault, Invariant, Kind, LockId, Parting, Rules, Terms, Verdict,
    Wait, WakesBy, What, Why, check,
};

/// Two calls of two clients: the first has the lock, the second has asked for it.
pub(crate) fn asked_and_granted() -> Vec<What> {
    vec![asked(0, 0), holder(Some(0)), granted(0, 7), asked(1, 1)]
}

pub(crate) const TERMS: Terms =
    Terms { ttl: Duration::from_millis(600), fixed: false, max_hold: None, min_hold: None };

pub(crate) fn asked(call: CallId, client: usize) -> What {
    asked_on(call, client, TERMS)
}

pub(crate) fn asked_on(call: CallId, client: usize, terms: Terms) -> What {
    What::Asked { call, client, lock: 0, terms, waits: Wait::Ever }
}

pub(crate) fn holder(call: Option<CallId>) -> What {
    What::Holder { lock: 0, call }
}

pub(crate) fn held(call: CallId) -> What {
    What::Held { call, left: 600_000 }
}

pub(crate) fn let_go(call: CallId) -> What {
    What::LetGo { call, parting: Parting::Release, left: 500_000 }
}

pub(crate) fn granted(call: CallId, token: u64) -> What {
    What::Granted { call, token, late: false }
}

pub(crate) fn not_granted(call: CallId, why: Why) -> What {
    What::NotGranted { call, why }
}

/// The release of this call's own hold arrives.
pub(crate) fn released(call: CallId) -> What {
    What::ReleaseArrived { of: Some(call), before: Some(call), after: None }
}

pub(crate) fn succeeded(token: u64) -> Vec<What> {
    vec![
        let_go(0),
        released(0),
        What::Ended { call: 0, ending: Ending::Released },
        holder(Some(1)),
        granted(1, token),
    ]
}

/// Call 0 is told so many microseconds after its deadline.
pub(crate) fn told_late(late: u64) -> What {
    What::Told { call: 0, cause: None, late, left: 0 }
}

/// Call 0 is told so many milliseconds before its deadline.
pub(crate) fn told(cause: LossReason, left: u64) -> What {
    What::Told { call: 0, cause: Some(cause), late: 0, left: left * 1000 }
}

pub(crate) fn revokes(lock: LockId) -> What {
    What::Revokes { call: 5, client: 3, lock, when: When::HoldersDeadline }
}

/// A fault begins. Times are in milliseconds.
pub(crate) fn begins(kind: Kind, begins: u64, ends: u64) -> What {
    What::Begins(Fault { kind, begins: begins * 1000, ends: ends * 1000 })
}

pub(crate) fn missed(client: usize, server: usize, fate: Fate) -> What {
    What::Missed { client, server, fate }
}

/// An entry that changes nothing: only time goes on.
pub(crate) fn nothing() -> What {
    What::ClaimEnds(Claim { client: 7, lock: 2 })
}

pub(crate) fn opens(family: FamilyName, servers: usize, wakes: WakesBy) -> What {
    What::Opens(Rules { family, servers, wakes })
}

pub(crate) fn wrote(call: CallId, token: u64, accepted: bool) -> What {
    What::Wrote { call, token, accepted }
}

/// A log by hand consists of these: events one millisecond apart, or events at given times, in milliseconds.
pub(crate) trait Event {
    /// Returns the entry that this event, the `nth` of its log, has there.
    fn entry(self, nth: u64) -> Entry;
}

impl Event for What {
    fn entry(self, nth: u64) -> Entry {
        Entry { at: nth * 1000, what: self }
    }
}

impl Event for (u64, What) {
    fn entry(self, _nth: u64) -> Entry {
        let (at, what) = self;
        Entry { at: at * 1000, what }
    }
}

pub(crate) fn log(parts: impl IntoIterator<Item = Vec<impl Event>>) -> Vec<Entry> {
    parts.into_iter().flatten().zip(1..).map(|(event, nth)| event.entry(nth)).collect()
}

pub(crate) fn verdict(parts: impl IntoIterator<Item = Vec<impl Event>>) -> Verdict {
    check(&log(parts))
}

/// Asserts that there is exactly one violation, of this invariant.
pub(crate) fn catches(invariant: Invariant, parts: impl IntoIterator<Item = Vec<impl Event>>) {
    let found = verdict(parts).violations;
    assert!(matches!(&found[..], [one] if one.invariant == invariant), "{invariant}: {found:?}");
}

/// Asserts that there is no violation.
pub(crate) fn leaves_alone(parts: impl IntoIterator<Item = Vec<impl Event>>) {
    assert_eq!(verdict(parts).violations, []);
}

/// Asserts that there is no violation, and returns how often this invariant was excused.
pub(crate) fn excused(invariant: Invariant, parts: impl IntoIterator<Item = Vec<impl Event>>) -> u64 {
    let verdict = verdict(parts);
    assert_eq!(verdict.violations, []);
    verdict.excused[invariant as usize]
}
