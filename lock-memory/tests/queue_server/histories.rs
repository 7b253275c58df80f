//! Random histories of requests, some of which come late or twice, against the model.

use std::collections::{BTreeSet, HashMap};

use lock_core::Owner;
use lock_core::driver::{Queueing, Revoked, When};
use lock_memory::server::queue::{Answer, Moved, Request, SessionId};
use lock_memory::server::{ClientId, Handled, Server};

use crate::common::{A, NOW, SplitMix, TTL, owner, shown};
use crate::model::{Model, OPERATOR, Order};
use crate::{numbered, release_up_to, revoke, server};

#[test]
fn a_thousand_random_histories_fit_the_model() {
    let mut counted = HashMap::<&str, u64>::new();
    for seed in 0..1000 {
        let (mut random, mut server, mut model) = (SplitMix(seed), server(), Model::default());
        let (mut now, mut in_flight, mut sessions) = (NOW, Vec::new(), Vec::new());
        for step in 0..200_u64 {
            now = now + TTL.mul_f64(random.below(300) as f64 / 10_000.0);
            let n = step / 20 + random.below(5);
            let request = draw(&mut random, n, step, &sessions);
            in_flight.push((n, request));
            // Some messages arrive late, some twice.
            let next = random.below(in_flight.len() as u64) as usize;
            let (n, request) = match random.below(4) {
                0 => in_flight[next].clone(),
                _ => in_flight.swap_remove(next),
            };
            in_flight.truncate(6);

            let before = model.order();
            let Handled { answer, pushes } = server.handle(now, A, request.clone());
            model.check(now, n, &request, &answer);
            check_pushes(&before, &model.order(), &pushes);
            if let Answer::Opened(session) = answer {
                sessions.push(session);
            }
            *counted.entry(kind(&answer)).or_default() += 1;
        }
    }
    let kinds =
        ["kept", "no session", "granted", "queued", "busy", "refused", "released", "not held", "revoked"];
    for kind in kinds {
        assert!(
            counted.get(kind).is_some_and(|count| *count > 1000),
            "{kind} was hardly tested: {counted:?}"
        );
    }
}

fn draw(random: &mut SplitMix, n: u64, step: u64, sessions: &[SessionId]) -> Request {
    let recent = &sessions[sessions.len().saturating_sub(3)..];
    let Some(session) = recent.get(random.below(recent.len().max(1) as u64) as usize).copied() else {
        return Request::OpenSession { timeout: TTL };
    };
    match random.below(20) {
        0 => Request::OpenSession { timeout: TTL },
        1 => Request::CloseSession { session },
        2..=4 => Request::Heartbeat { session },
        5..=6 => numbered(n, session, step, Queueing::No),
        7..=12 => numbered(n, session, step, Queueing::Queued),
        13..=14 => release_up_to(n, step, None),
        15..=16 => release_up_to(n, step + random.below(10), Some(session)),
        17 => revoke(shown(n), OPERATOR, When::HoldersDeadline),
        18 => revoke(shown(n), OPERATOR, When::Now),
        _ => revoke(shown(OPERATOR), OPERATOR, When::Now),
    }
}

/// Asserts that every owner is told in front of whose place another one is gone. Besides them, only owners that have
/// lost their own place may be told.
fn check_pushes(before: &Order, after: &Order, pushes: &[(ClientId, Moved)]) {
    let told: BTreeSet<Owner> = pushes.iter().map(|(_, Moved(owner))| *owner).collect();
    let (mut must, mut may) = (BTreeSet::new(), BTreeSet::new());
    for (place, (n, front)) in before {
        match after.get(place) {
            Some((still, now)) if still == n && now == front => {}
            Some((still, _)) if still == n => _ = must.insert(owner(*n)),
            _ => _ = may.insert(owner(*n)),
        }
    }
    // A place of the operator's belongs to no session, so there is no client to tell.
    must.remove(&owner(OPERATOR));
    assert!(must.is_subset(&told), "not told: {before:?}, {after:?}, {told:?}");
    assert!(
        told.iter().all(|n| must.contains(n) || may.contains(n)),
        "told without reason: {before:?}, {after:?}, {told:?}"
    );
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Kept(_) => "kept",
        Answer::NoSession => "no session",
        Answer::Granted(_) => "granted",
        Answer::Busy { queued: true } => "queued",
        Answer::Busy { queued: false } => "busy",
        Answer::Refused => "refused",
        Answer::Released { .. } => "released",
        Answer::NotHeld => "not held",
        Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)) => "revoked",
        _ => "something else",
    }
}
