//! Logs written by hand, for the checker's own tests.

use std::time::Duration;

use lock_core::Ending;
use lock_simulation::{
    CallId, Entry, FamilyName, Invariant, Parting, Rules, Terms, Violation, Wait, WakesBy, What, check,
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

pub(crate) fn succeeded(token: u64) -> Vec<What> {
    vec![
        let_go(0),
        What::ReleaseArrived { of: Some(0), before: Some(0), after: None },
        What::Ended { call: 0, ending: Ending::Released },
        holder(Some(1)),
        granted(1, token),
    ]
}

pub(crate) fn told(late: u64) -> What {
    What::Told { call: 0, cause: None, late, left: 0 }
}

pub(crate) fn wrote(call: CallId, token: u64, accepted: bool) -> What {
    What::Wrote { call, token, accepted }
}

/// Makes a log of these entries, one millisecond apart.
pub(crate) fn log(parts: impl IntoIterator<Item = Vec<What>>) -> Vec<Entry> {
    parts.into_iter().flatten().zip(1..).map(|(what, n)| Entry { at: n * 1000, what }).collect()
}

pub(crate) fn violations(parts: impl IntoIterator<Item = Vec<What>>) -> Vec<Violation> {
    check(&log(parts)).violations
}

/// Asserts that there is exactly one violation, of this invariant.
pub(crate) fn catches(invariant: Invariant, parts: impl IntoIterator<Item = Vec<What>>) {
    let found = violations(parts);
    assert!(matches!(&found[..], [one] if one.invariant == invariant), "{invariant}: {found:?}");
}

/// Makes a log of entries at the given times, in milliseconds.
pub(crate) fn at(entries: impl IntoIterator<Item = (u64, What)>) -> Vec<Entry> {
    entries.into_iter().map(|(at, what)| Entry { at: at * 1000, what }).collect()
}

/// Asserts that there is exactly one violation, of this invariant, in what happens at these times.
pub(crate) fn catches_at(invariant: Invariant, entries: impl IntoIterator<Item = (u64, What)>) {
    let found = check(&at(entries)).violations;
    assert!(matches!(&found[..], [one] if one.invariant == invariant), "{invariant}: {found:?}");
}

/// Asserts that there is no violation.
pub(crate) fn leaves_alone(entries: impl IntoIterator<Item = (u64, What)>) {
    assert_eq!(check(&at(entries)).violations, []);
}

/// An entry that changes nothing: only time goes on.
pub(crate) fn nothing() -> What {
    What::ClaimEnds { client: 7, lock: 2 }
}

pub(crate) fn opens(family: FamilyName, servers: usize, wakes: WakesBy) -> What {
    What::Opens(Rules { family, servers, wakes })
}
