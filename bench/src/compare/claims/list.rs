//! The claims, in the words of `docs/claims.md`.

use lock_naive::Scheme;

use super::evidence::{Evidence, Of};
use super::trial::Scene::{self, CrashedMajority, DeadWaiters, Dies, EarlyRelease, Failover, Minority, Told};
use super::trial::Trial::{self, Case};
use super::verdict::Judged;
use super::{keeping, queues, several, speed};
use crate::backend::Backend;

/// A claim, and how it is judged.
pub(super) struct Claim {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
    /// The scheme that it is about, as the document calls it.
    pub(super) scheme: &'static str,
    /// Who stands for that scheme.
    pub(super) naive: Naive,
    /// The server on which it is tried, also for the library.
    pub(super) backend: Backend,
    /// What has to be tried for it. Claims about speed need rows of workloads only.
    pub(super) trials: &'static [Trial],
    pub(super) judge: fn(&Evidence<'_>, Of) -> Judged,
}

/// Who stands for the scheme of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naive {
    Tried(Scheme),
    NotMeasurable(&'static str),
    NotMeasured(&'static str),
}

/// Returns what is tried on a server, each of it once.
pub(super) fn trials(backend: Backend) -> Vec<(Of, Trial)> {
    let mut all = Vec::new();
    for claim in CLAIMS.iter().filter(|claim| claim.backend == backend) {
        let scheme = match claim.naive {
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

const UNIQUE_INDEX: Claim = claim("MySQL, unique index", Naive::Tried(Scheme::UniqueIndex), Backend::MySql);
const FIND_AND_MODIFY: Claim =
    claim("MongoDB, findAndModify", Naive::Tried(Scheme::FindAndModify), Backend::Mongo);
const ZOOKEEPER: Claim = claim("ZooKeeper", Naive::NotMeasured(NO_ZOOKEEPER), Backend::ZooKeeper);
const COMMANDS: Claim = claim("Redis' commands", Naive::Tried(Scheme::Setnx), Backend::Redis);
const LUA: Claim = claim("Redis with Lua", Naive::Tried(Scheme::SetNxEx), Backend::Redis);
/// The fair lock of the texts is one of Redisson's, with its hash, its wake-ups and its watchdog.
const REDISSON: Claim = claim("Redisson's way", Naive::Tried(Scheme::FairQueue), Backend::Redis);
const REDLOCK: Claim = claim("Redlock", Naive::Tried(Scheme::Redlock), Backend::Redlock);
const FAIR: Claim = claim("fair lock", Naive::Tried(Scheme::FairQueue), Backend::Redis);

const NO_ZOOKEEPER: &str =
    "bench/naive has no scheme on ZooKeeper: the recipe of the texts is what the library's backend does";
const NO_DELAY: &str =
    "the scheme does not delay a restart: its operator does, or does not, and that can't be measured";

const fn claim(scheme: &'static str, naive: Naive, backend: Backend) -> Claim {
    Claim { id: "", text: "", scheme, naive, backend, trials: &[], judge: speed::is_slow }
}

const REENTRANT_AND_TOLD: &[Trial] = &[Case(keeping::SAME_OWNER), Trial::Scene(Told)];
const CRASH: &[Trial] = &[Case(keeping::CRASH)];

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "T1",
        text: "There is no expiry: a crash of the holder is a deadlock.",
        trials: CRASH,
        judge: keeping::a_crash_is_a_deadlock,
        ..UNIQUE_INDEX
    },
    Claim {
        id: "T2",
        text: "It is not reentrant, and there is no blocking wait.",
        trials: REENTRANT_AND_TOLD,
        judge: keeping::is_neither_reentrant_nor_blocking,
        ..UNIQUE_INDEX
    },
    Claim { id: "T3", text: "It is costly and slow.", judge: speed::is_slow, ..UNIQUE_INDEX },
    Claim {
        id: "T4",
        text: "It is much faster than the unique index of MySQL.",
        judge: speed::is_much_faster_than_mysql,
        ..FIND_AND_MODIFY
    },
    Claim {
        id: "T5",
        text: "There is no expiry: a crash of the holder is a deadlock.",
        trials: CRASH,
        judge: keeping::a_crash_is_a_deadlock,
        ..FIND_AND_MODIFY
    },
    Claim {
        id: "T6",
        text: "It is highly available, by its cluster.",
        judge: several::is_available_by_its_cluster,
        ..ZOOKEEPER
    },
    Claim {
        id: "T7",
        text: "This is the lightest and fastest of all.",
        judge: speed::is_the_fastest,
        ..COMMANDS
    },
    Claim {
        id: "T8",
        text: "It is not atomic: a crash between the two commands is a deadlock.",
        trials: &[Trial::Scene(Dies)],
        judge: keeping::a_death_between_requests_is_a_deadlock,
        ..COMMANDS
    },
    Claim {
        id: "T9",
        text: "DEL can delete another's lock.",
        trials: &[Case(keeping::RELEASE_OF_ANOTHERS)],
        judge: keeping::a_release_deletes_anothers_lock,
        ..COMMANDS
    },
    Claim {
        id: "T10",
        text: "There is no blocking wait, and it is not reentrant.",
        trials: REENTRANT_AND_TOLD,
        judge: keeping::is_neither_reentrant_nor_blocking,
        ..COMMANDS
    },
    Claim {
        id: "T11",
        text: "It is as fast as Redis' commands.",
        judge: speed::is_as_fast_as_the_commands,
        ..LUA
    },
    Claim {
        id: "T12",
        text: "There is no blocking wait, and it is not reentrant.",
        trials: REENTRANT_AND_TOLD,
        judge: keeping::is_neither_reentrant_nor_blocking,
        ..LUA
    },
    Claim {
        id: "T13",
        text: "It is reentrant, blocking and atomic, and it is renewed while the holder lives.",
        trials: &[Case(keeping::SAME_OWNER), Case(keeping::RENEWED), Trial::Scene(Told), Trial::Scene(Dies)],
        judge: keeping::is_reentrant_blocking_atomic_and_renewed,
        ..REDISSON
    },
    Claim {
        id: "T14",
        text: "The lock is lost on a failover to a replica that lags.",
        trials: &[Trial::Scene(Failover)],
        judge: several::is_lost_on_failover,
        ..REDISSON
    },
    Claim {
        id: "T15",
        text: "It survives the failure of a minority.",
        trials: &[Trial::Scene(Minority)],
        judge: several::survives_a_minority,
        ..REDLOCK
    },
    Claim {
        id: "T16",
        text: "A server that restarts empty breaks exclusion, unless it stays away for a ttl, or writes to its disk at \
               every write.",
        trials: &[Trial::Scene(Scene::EmptyRestart)],
        judge: several::an_empty_restart_breaks_exclusion,
        ..REDLOCK
    },
    Claim {
        id: "T17",
        text: "It has no token by itself.",
        trials: &[Case(keeping::TOKENS)],
        judge: keeping::has_no_token,
        ..REDLOCK
    },
    Claim {
        id: "T18",
        text: "First come, first served; a dead waiter costs 5 s.",
        trials: &[Case(queues::ORDER), Trial::Scene(DeadWaiters)],
        judge: queues::is_fair_and_a_dead_waiter_costs_five_seconds,
        ..FAIR
    },
    Claim {
        id: "T19",
        text: "With n dead waiters it takes 5n s.",
        trials: &[Trial::Scene(DeadWaiters)],
        judge: queues::every_dead_waiter_costs_its_own_time,
        ..FAIR
    },
    Claim {
        id: "T20",
        text: "A holder that pauses beyond its lease writes over its successor, unless the resource checks a token: 33 \
               is refused after 34.",
        scheme: "every lease",
        trials: &[Case(keeping::LATE_WRITE)],
        judge: keeping::a_late_write_is_taken,
        ..LUA
    },
    Claim {
        id: "T21",
        text: "A lease of 30 s that is renewed every 10 s keeps the lock of a live holder, and lets a dead one's go \
               within 30 s.",
        scheme: "watchdog",
        trials: &[Case(keeping::RENEWED), Case(keeping::CRASH)],
        judge: keeping::a_watchdog_keeps_the_lock_of_a_live_holder_only,
        ..REDISSON
    },
    Claim {
        id: "T22",
        text: "Asking the servers at once, and not one by one, shortens the acquisition.",
        judge: speed::asking_at_once_is_faster,
        ..REDLOCK
    },
    Claim {
        id: "T23",
        text: "The sooner a majority that was not reached is released, the less the others wait.",
        trials: &[Trial::Scene(EarlyRelease)],
        judge: several::an_early_release_shortens_the_wait,
        ..REDLOCK
    },
    Claim {
        id: "T24",
        text: "With fsync at every write, it is as slow as systems that are consistent under partition.",
        scheme: "Redis",
        judge: speed::with_a_disk_it_is_as_slow_as_etcd,
        ..LUA
    },
    Claim {
        id: "T25",
        text: "With delayed restarts, a majority that crashed makes every lock unavailable for a ttl.",
        naive: Naive::NotMeasurable(NO_DELAY),
        trials: &[Trial::Scene(CrashedMajority)],
        judge: several::a_crashed_majority_costs_a_ttl,
        ..REDLOCK
    },
    Claim {
        id: "T26",
        text: "Each partition costs up to a ttl of availability.",
        trials: CRASH,
        judge: keeping::a_holder_that_is_gone_costs_a_ttl,
        ..REDLOCK
    },
    Claim {
        id: "T27",
        text: "Extending a lock without limit breaks liveness. (This library has max_hold for that.)",
        trials: &[Case(keeping::RENEWED), Case(keeping::MAX_HOLD)],
        judge: keeping::extending_has_no_limit,
        ..REDLOCK
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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
