//! The table: scheme, case, and what is expected.

use std::collections::BTreeSet;
use std::fmt;

use libtest_mimic::Trial;
use lock_conformance::rules;
use lock_naive::Scheme;
use lock_naive::Scheme::{FairQueue, FindAndModify, Redlock, SetNxEx, Setnx, UniqueIndex};

use crate::expected::Expected;
use crate::expected::Expected::{NotRun, Passes};

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) scheme: Scheme,
    pub(crate) case: &'static str,
    pub(crate) expected: Expected,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scheme.name(), self.case)
    }
}

const fn row(scheme: Scheme, case: &'static str, expected: Expected) -> Row {
    Row { scheme, case, expected }
}

/// A failure that the texts foretell.
const fn foretold(claim: &'static str, saying: &'static str) -> Expected {
    Expected::Fails { saying, claim: Some(claim) }
}

/// A failure that no text says.
const fn unsaid(saying: &'static str) -> Expected {
    Expected::Fails { saying, claim: None }
}

// The cases.

const EXCLUDES: &str = "exclusion::a_held_lock_is_not_given_to_another";
const REFUSES: &str = "contract::a_free_lock_is_granted_and_a_held_one_busy";
/// After a crash of its holder the lock is free when the lease has ended.
const CRASH: &str = "waiting::a_waiter_goes_by_its_holders_ttl";
const RELEASE_OF_ANOTHERS: &str = "contract::release_never_touches_anothers";
/// The driver itself: an owner that holds it is granted it again.
const SAME_OWNER: &str = "contract::granted_again_with_the_same_token_and_what_is_left";
const ONE_RELEASE: &str = "contract::one_release_frees_what_two_attempts_took";
/// The library: it counts entries in the client, whatever the driver does.
const REENTRANT: &str = "reentrancy::an_owner_enters_again_and_leaves_as_often";
/// The library: it looks again and again if the driver can't wait.
const WAITS: &str = "waiting::a_waiter_has_it_after_a_release";
/// The driver itself: a server tells waiters, or has a queue.
const BLOCKING: &str = "waiting::two_processes_share_a_name_evenly";
const IS_TOLD: &str = "contract::a_release_resolves_changed_of_a_listening_claim";
const ORDER: &str = "waiting::clients_come_in_the_order_in_which_they_asked";
const DEAD_WAITERS: &str = "outage::dead_waiters_in_front_cost_one_timeout_however_many";
const RENEWED: &str = "lease::a_live_holder_keeps_it";
const TOKENS: &str = "fencing::tokens_rise_over_all_holders";
const LATE_WRITE: &str = "fencing::a_late_write_is_refused_by_the_resource";

// What they say.

const DEADLOCK: &str = "the lease ends: not within";
const RELEASED_ANOTHERS: &str = "left: Released";
const REFUSED_TO_ITSELF: &str = "expected a grant, got Busy";
const COUNTED: &str = "a hold is not counted on the server";
const NOT_RENEWED: &str = "it is renewed";
const SAME_TOKEN: &str = "then FencingToken(1)";
const WRITES_OVER: &str = "the predecessor's write comes late";
const BEHIND_THE_DEAD: &str = "behind 1 dead waiters";

pub(crate) const TABLE: &[Row] = &[
    row(UniqueIndex, EXCLUDES, Passes),
    row(UniqueIndex, REFUSES, Passes),
    row(UniqueIndex, CRASH, foretold("T1", DEADLOCK)),
    row(UniqueIndex, RELEASE_OF_ANOTHERS, unsaid(RELEASED_ANOTHERS)),
    row(UniqueIndex, SAME_OWNER, foretold("T2", REFUSED_TO_ITSELF)),
    row(UniqueIndex, REENTRANT, Passes),
    row(UniqueIndex, WAITS, Passes),
    row(UniqueIndex, BLOCKING, NotRun),
    row(UniqueIndex, ORDER, NotRun),
    row(UniqueIndex, RENEWED, Passes),
    row(UniqueIndex, TOKENS, foretold("T20", SAME_TOKEN)),
    row(UniqueIndex, LATE_WRITE, foretold("T20", WRITES_OVER)),
    //
    row(FindAndModify, EXCLUDES, Passes),
    row(FindAndModify, REFUSES, Passes),
    row(FindAndModify, CRASH, foretold("T5", DEADLOCK)),
    row(FindAndModify, RELEASE_OF_ANOTHERS, unsaid(RELEASED_ANOTHERS)),
    row(FindAndModify, SAME_OWNER, unsaid(REFUSED_TO_ITSELF)),
    row(FindAndModify, REENTRANT, Passes),
    row(FindAndModify, WAITS, Passes),
    row(FindAndModify, BLOCKING, NotRun),
    row(FindAndModify, ORDER, NotRun),
    row(FindAndModify, RENEWED, Passes),
    row(FindAndModify, TOKENS, foretold("T20", SAME_TOKEN)),
    row(FindAndModify, LATE_WRITE, foretold("T20", WRITES_OVER)),
    //
    row(Setnx, EXCLUDES, Passes),
    row(Setnx, REFUSES, Passes),
    // Unless it crashes between the two commands: see `crashes.rs`.
    row(Setnx, CRASH, Passes),
    row(Setnx, RELEASE_OF_ANOTHERS, foretold("T9", RELEASED_ANOTHERS)),
    row(Setnx, SAME_OWNER, foretold("T10", REFUSED_TO_ITSELF)),
    row(Setnx, REENTRANT, Passes),
    row(Setnx, WAITS, Passes),
    row(Setnx, BLOCKING, NotRun),
    row(Setnx, ORDER, NotRun),
    row(Setnx, RENEWED, foretold("T21", NOT_RENEWED)),
    row(Setnx, TOKENS, foretold("T20", SAME_TOKEN)),
    row(Setnx, LATE_WRITE, foretold("T20", WRITES_OVER)),
    //
    row(SetNxEx, EXCLUDES, Passes),
    row(SetNxEx, REFUSES, Passes),
    row(SetNxEx, CRASH, Passes),
    row(SetNxEx, RELEASE_OF_ANOTHERS, Passes),
    row(SetNxEx, SAME_OWNER, foretold("T12", REFUSED_TO_ITSELF)),
    row(SetNxEx, REENTRANT, Passes),
    row(SetNxEx, WAITS, Passes),
    row(SetNxEx, BLOCKING, NotRun),
    row(SetNxEx, ORDER, NotRun),
    row(SetNxEx, RENEWED, foretold("T21", NOT_RENEWED)),
    row(SetNxEx, TOKENS, foretold("T20", SAME_TOKEN)),
    row(SetNxEx, LATE_WRITE, foretold("T20", WRITES_OVER)),
    //
    row(Redlock, EXCLUDES, Passes),
    row(Redlock, REFUSES, Passes),
    row(Redlock, CRASH, Passes),
    row(Redlock, RELEASE_OF_ANOTHERS, Passes),
    row(Redlock, SAME_OWNER, unsaid(REFUSED_TO_ITSELF)),
    row(Redlock, REENTRANT, Passes),
    row(Redlock, WAITS, Passes),
    row(Redlock, BLOCKING, NotRun),
    row(Redlock, ORDER, NotRun),
    row(Redlock, RENEWED, Passes),
    row(Redlock, TOKENS, foretold("T17", SAME_TOKEN)),
    row(Redlock, LATE_WRITE, foretold("T20", WRITES_OVER)),
    //
    row(FairQueue, EXCLUDES, Passes),
    row(FairQueue, REFUSES, Passes),
    row(FairQueue, CRASH, Passes),
    row(FairQueue, RELEASE_OF_ANOTHERS, Passes),
    row(FairQueue, SAME_OWNER, Passes),
    row(FairQueue, ONE_RELEASE, unsaid(COUNTED)),
    row(FairQueue, REENTRANT, Passes),
    row(FairQueue, WAITS, Passes),
    row(FairQueue, IS_TOLD, Passes),
    row(FairQueue, ORDER, Passes),
    row(FairQueue, DEAD_WAITERS, foretold("T19", BEHIND_THE_DEAD)),
    row(FairQueue, RENEWED, Passes),
    row(FairQueue, TOKENS, foretold("T20", SAME_TOKEN)),
    row(FairQueue, LATE_WRITE, foretold("T20", WRITES_OVER)),
];

/// Returns the tests of the table itself.
pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, fn()); 2] = [
        ("table::every_claim_is_a_flaw_of_its_scheme", every_claim_is_a_flaw_of_its_scheme),
        ("table::the_document_has_every_flaw_and_every_case", the_document_has_every_flaw_and_every_case),
    ];
    rules::judged("lock-naive", tests)
}

fn every_claim_is_a_flaw_of_its_scheme() {
    let mut rows = BTreeSet::new();
    for row in TABLE {
        assert!(rows.insert(row.to_string()), "{row} is in the table twice");
        if let Expected::Fails { claim: Some(claim), .. } = row.expected {
            assert!(row.scheme.flaws().contains(&claim), "{row} shows {claim}, which is not among its flaws");
        }
    }
}

fn the_document_has_every_flaw_and_every_case() {
    const DOCUMENT: &str = include_str!("../../../../docs/claims.md");
    for flaw in Scheme::ALL.iter().flat_map(|scheme| scheme.flaws()) {
        assert!(DOCUMENT.contains(&format!("\n| {flaw} | ")), "{flaw} is missing");
    }
    for row in TABLE {
        assert!(DOCUMENT.contains(&format!("`{}`", row.case)), "{} is missing", row.case);
    }
}
