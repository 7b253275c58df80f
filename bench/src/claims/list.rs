//! The list of the claims of `docs/claims.md`, each with its trials and its judge.

use lock_naive::Scheme;

use super::evidence::{Evidence, Of};
use super::trial::Scene::{
    CrashedMajority, DeadWaiters, Dies, EarlyRelease, EmptyRestart, Failover, Minority, Told,
};
use super::trial::Trial::{self, Case, Scene};
use super::verdict::Judged;
use super::{keeping, several, speed};
use crate::backend::Backend;

/// A claim, with its trials and its judge.
pub(super) struct Claim {
    pub(super) id: &'static str,
    pub(super) about: About,
    /// Claims about speed need rows of workloads only.
    pub(super) trials: &'static [Trial],
    pub(super) judge: fn(&Evidence<'_>, Of) -> Judged,
}

/// This stands for the scheme of the texts, on this kind of server; the library is tried there, too.
#[derive(Clone, Copy)]
pub(super) struct About(pub(super) Naive, pub(super) Backend);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naive {
    Tried(Scheme),
    NotMeasurable(&'static str),
    NotMeasured(&'static str),
}

/// Returns what is tried on a server, each of it once.
pub(super) fn trials(backend: Backend) -> Vec<(Of, Trial)> {
    let mut all = Vec::new();
    for claim in CLAIMS.iter().filter(|claim| claim.about.1 == backend) {
        let scheme = match claim.about.0 {
            Naive::Tried(scheme) => Some(Of::Scheme(scheme, backend)),
            Naive::NotMeasurable(_) | Naive::NotMeasured(_) => None,
        };
        for of in scheme.into_iter().chain([Of::Ours(backend)]) {
            for trial in claim.trials {
                if !all.contains(&(of, *trial)) {
                    all.push((of, *trial));
                }
            }
        }
    }
    all
}

const DOCUMENT: &str = include_str!("../../../docs/claims.md");

impl Claim {
    /// Returns the scheme that it is about and its text, as the document has them.
    pub(super) fn words(&self) -> [String; 2] {
        let begin = format!("| {} | ", self.id);
        let line = DOCUMENT.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default();
        let mut cells = line.trim_end_matches(" |").split(" | ").map(|cell| cell.replace('`', ""));
        [(); 2].map(|()| cells.next().unwrap_or_default())
    }
}

const UNIQUE_INDEX: About = About(Naive::Tried(Scheme::UniqueIndex), Backend::MySql);
const FIND_AND_MODIFY: About = About(Naive::Tried(Scheme::FindAndModify), Backend::Mongo);
const ZOOKEEPER: About = About(
    Naive::NotMeasured(
        "bench/naive has no scheme on ZooKeeper: the recipe of the texts is what the library's backend does",
    ),
    Backend::ZooKeeper,
);
const COMMANDS: About = About(Naive::Tried(Scheme::Setnx), Backend::Redis);
const LUA: About = About(Naive::Tried(Scheme::SetNxEx), Backend::Redis);
/// The fair lock of the texts is one of Redisson's, with its hash, its wake-ups and its watchdog.
const REDISSON: About = About(Naive::Tried(Scheme::FairQueue), Backend::Redis);
const REDLOCK: About = About(Naive::Tried(Scheme::Redlock), Backend::Redlock);
const DELAYED_RESTARTS: About = About(
    Naive::NotMeasurable(
        "the scheme does not delay a restart: its operator does, or does not, and that can't be measured",
    ),
    Backend::Redlock,
);

const CRASH: &[Trial] = &[Case(keeping::CRASH)];
const REENTRANT_AND_TOLD: &[Trial] = &[Case(keeping::SAME_OWNER), Scene(Told)];
const OF_REDISSON: &[Trial] = &[Case(keeping::SAME_OWNER), Case(keeping::RENEWED), Scene(Told), Scene(Dies)];

const fn claim(
    id: &'static str,
    about: About,
    trials: &'static [Trial],
    judge: fn(&Evidence<'_>, Of) -> Judged,
) -> Claim {
    Claim { id, about, trials, judge }
}

pub(super) const CLAIMS: &[Claim] = &[
    claim("T1", UNIQUE_INDEX, CRASH, keeping::a_crash_is_a_deadlock),
    claim("T2", UNIQUE_INDEX, REENTRANT_AND_TOLD, keeping::is_neither_reentrant_nor_blocking),
    claim("T3", UNIQUE_INDEX, &[], speed::is_slow),
    claim("T4", FIND_AND_MODIFY, &[], speed::is_much_faster_than_mysql),
    claim("T5", FIND_AND_MODIFY, CRASH, keeping::a_crash_is_a_deadlock),
    claim("T6", ZOOKEEPER, &[], several::is_available_by_its_cluster),
    claim("T7", COMMANDS, &[], speed::is_the_fastest),
    claim("T8", COMMANDS, &[Scene(Dies)], keeping::a_death_between_requests_is_a_deadlock),
    claim("T9", COMMANDS, &[Case(keeping::RELEASE_OF_ANOTHERS)], keeping::a_release_deletes_anothers_lock),
    claim("T10", COMMANDS, REENTRANT_AND_TOLD, keeping::is_neither_reentrant_nor_blocking),
    claim("T11", LUA, &[], speed::is_as_fast_as_the_commands),
    claim("T12", LUA, REENTRANT_AND_TOLD, keeping::is_neither_reentrant_nor_blocking),
    claim("T13", REDISSON, OF_REDISSON, keeping::is_reentrant_blocking_atomic_and_renewed),
    claim("T14", REDISSON, &[Scene(Failover)], several::is_lost_on_failover),
    claim("T15", REDLOCK, &[Scene(Minority)], several::survives_a_minority),
    claim("T16", REDLOCK, &[Scene(EmptyRestart)], several::an_empty_restart_breaks_exclusion),
    claim("T17", REDLOCK, &[Case(keeping::TOKENS)], keeping::has_no_token),
    claim(
        "T18",
        REDISSON,
        &[Case(keeping::ORDER), Scene(DeadWaiters)],
        keeping::is_fair_and_a_dead_waiter_costs_five_seconds,
    ),
    claim("T19", REDISSON, &[Scene(DeadWaiters)], keeping::every_dead_waiter_costs_its_own_time),
    claim("T20", LUA, &[Case(keeping::LATE_WRITE)], keeping::a_late_write_is_taken),
    claim(
        "T21",
        REDISSON,
        &[Case(keeping::RENEWED), Case(keeping::CRASH)],
        keeping::a_watchdog_keeps_the_lock_of_a_live_holder_only,
    ),
    claim("T22", REDLOCK, &[], speed::asking_at_once_is_faster),
    claim("T23", REDLOCK, &[Scene(EarlyRelease)], several::an_early_release_shortens_the_wait),
    claim("T24", LUA, &[], speed::with_a_disk_it_is_as_slow_as_etcd),
    claim("T25", DELAYED_RESTARTS, &[Scene(CrashedMajority)], several::a_crashed_majority_costs_a_ttl),
    claim("T26", REDLOCK, CRASH, keeping::a_holder_that_is_gone_costs_a_ttl),
    claim(
        "T27",
        REDLOCK,
        &[Case(keeping::RENEWED), Case(keeping::MAX_HOLD)],
        keeping::extending_has_no_limit,
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn claims_stand_in_the_order_of_the_document() {
        let ids: Vec<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        let is_claim = |line: &&str| line.starts_with("| T") && line.matches(" | ").count() == 2;
        let lines: Vec<&str> = DOCUMENT.lines().filter(is_claim).collect();
        let of_document = lines.iter().map(|line| line[2..].split(" | ").next().unwrap());
        assert_eq!(ids, of_document.collect::<Vec<_>>());
        assert!(
            ids.len() == 27 && CLAIMS.iter().all(|claim| claim.words().iter().all(|text| !text.is_empty()))
        );
    }

    #[test]
    fn nothing_is_tried_twice_on_a_server() {
        for backend in [Backend::Redis, Backend::Redlock, Backend::MySql, Backend::Mongo] {
            let trials = trials(backend);
            let texts: BTreeSet<(&str, &str)> =
                trials.iter().map(|(of, trial)| (of.subject(), trial.name())).collect();
            assert!(!trials.is_empty() && texts.len() == trials.len(), "{texts:?}");
        }
        assert!(trials(Backend::Postgres).is_empty() && trials(Backend::ZooKeeper).is_empty());
    }
}
