//! Random histories of requests, some of which come late or twice, against the model.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::driver::{Revoked, When};
use lock_memory::ServerTime;
use lock_memory::server::lease::{Answer, LeaseServer};

use crate::common::{NOW, SplitMix};
use crate::model::{Model, OPERATOR};
use crate::{ask, attempt, release, renew, revoke, take_over};

#[test]
fn a_thousand_random_histories_fit_the_model() {
    let mut counted = HashMap::<&str, u64>::new();
    for seed in 0..1000 {
        let (mut random, mut server, mut model) = (SplitMix(seed), LeaseServer::default(), Model::default());
        let (mut now, mut in_flight) = (NOW, Vec::new());
        for step in 0..400_u64 {
            now = match random.below(20) {
                0 => ServerTime::from_micros(now.as_micros() - random.below(20_000_000)),
                _ => now + Duration::from_micros(random.below(4_000_000)),
            };
            // New owners appear while others disappear. Each owner has later and later deadlines.
            let n = step / 20 + random.below(4);
            let ttl = Duration::from_micros(1 + random.below(10_000_000));
            let request = match random.below(10) {
                0..=2 => attempt(n, ttl, now + Duration::from_micros(random.below(3_000_000) + step)),
                3..=4 => renew(n, ttl),
                7..=8 => take_over(n, ttl, now + Duration::from_micros(random.below(3_000_000) + step)),
                5 => release(n),
                6 if random.below(3) == 0 => revoke(n, OPERATOR, When::HoldersDeadline),
                6 => revoke(n, OPERATOR, When::Now),
                _ => release(n),
            };
            in_flight.push((n, ttl, request));
            // Some messages arrive late, some twice.
            let next = random.below(in_flight.len() as u64) as usize;
            let (n, ttl, request) = match random.below(4) {
                0 => in_flight[next].clone(),
                _ => in_flight.swap_remove(next),
            };
            in_flight.truncate(6);
            let answer = ask(&mut server, now, request.clone());
            model.check(now, n, ttl, &request, &answer);
            *counted.entry(kind(&answer)).or_default() += 1;
        }
    }
    for kind in ["granted", "busy", "refused", "renewed", "lost", "released", "revoked", "succeeded"] {
        assert!(
            counted.get(kind).is_some_and(|count| *count > 1000),
            "{kind} was hardly tested: {counted:?}"
        );
    }
}

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Granted { .. } => "granted",
        Answer::Succeeded { .. } => "succeeded",
        Answer::Busy { .. } => "busy",
        Answer::Refused => "refused",
        Answer::Renewed { .. } => "renewed",
        Answer::Lost(_) => "lost",
        Answer::Released { .. } => "released",
        Answer::Revoked(Revoked::Free | Revoked::FreeIn(_)) => "revoked",
        _ => "nothing",
    }
}
