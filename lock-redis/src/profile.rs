//! The guarantees of this server, kept in memory so that reading them needs no request.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease, Lists, Takeovers, Wakes};
use lock_core::toolkit::CurrentInfo;

use crate::facts::{Facts, Fitness};
use crate::layout::Layout;
use crate::servers::Servers;
use crate::settings::Redis;

/// The driver's [`Info`], updated with each new connection.
#[derive(Debug)]
pub(crate) struct Profile {
    current: CurrentInfo,
    promises: Promises,
}

/// The options of the client that decide about the guarantees.
#[derive(Clone, Copy, Debug)]
struct Promises {
    layout: Layout,
    acks: Option<NonZeroU8>,
    successor: Successor,
}

/// The server that may take the place of the one that is locked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    /// The client knows of none.
    None,
    /// The client goes to the replica that was promoted.
    Replica,
    /// Each lock is on one of several servers, and the client goes to the replica that was promoted in its place.
    ReplicaOfAMember,
}

impl Successor {
    pub(crate) fn among(servers: &Servers) -> Successor {
        match servers {
            Servers::One(_) => Successor::None,
            Servers::Copies(_) | Servers::Watched(_) => Successor::Replica,
            Servers::Cluster(_) => Successor::ReplicaOfAMember,
        }
    }
}

impl Promises {
    /// Returns what a failover loses.
    fn loses(self, facts: &Facts) -> Fitness {
        match (self.acks, self.successor) {
            (Some(acks), _) if !facts.is_replica() => facts.failover_with(acks),
            (_, Successor::None) => facts.replication(),
            (_, Successor::Replica | Successor::ReplicaOfAMember) => facts.failover(),
        }
    }
}

/// The time by which the server's clock may fall back: the server forgets a token this long after the time that the
/// token stands for. `scripts/mint.lua` has the same number in milliseconds.
pub(crate) const CLOCK_STEP: Duration = Duration::from_secs(3600);

const MIN_TTL: Duration = Duration::from_millis(10);
const MAX_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

const CLOCK: &str = "the server's wall clock. Two holders are possible for the time by which it is set forward (by \
    hand, by an NTP step, by a virtual machine's resume), or by which a promoted replica's clock is ahead of its \
    primary's. Its rate and the client's must agree within 1 % (chrony: maxslewrate 5000 at most)";

impl Profile {
    pub(crate) fn new(redis: &Redis) -> Profile {
        let Redis { servers, common, layout, acks } = redis;
        let promises = Promises { layout: *layout, acks: *acks, successor: Successor::among(servers) };
        let info = describe(servers.address(), promises, &Facts::default(), Wakes::Pushed);
        let current = CurrentInfo::new(info, format!("{} {}", servers.login().db(), common.prefix.as_str()));
        Profile { current, promises }
    }

    pub(crate) fn get(&self) -> Arc<Info> {
        self.current.get()
    }

    /// Takes over what a new connection reported: the server behind it may be another one.
    pub(crate) fn learn(&self, facts: &Facts) {
        // No member's run names the cluster.
        let run = facts.run.as_deref().filter(|_| self.promises.successor != Successor::ReplicaOfAMember);
        self.current.learn(run, |info| describe(info.server.clone(), self.promises, facts, info.wakes));
    }

    /// Returns what a failover loses.
    pub(crate) fn loses(&self, facts: &Facts) -> Fitness {
        self.promises.loses(facts)
    }

    /// Records whether the server granted or refused a subscription.
    pub(crate) fn learn_wakes(&self, wakes: Wakes) {
        if self.current.get().wakes != wakes {
            self.current.change(|info| info.wakes = wakes);
        }
    }
}

fn describe(server: String, promises: Promises, facts: &Facts, wakes: Wakes) -> Info {
    let layout = promises.layout;
    let (persistence, eviction, failover) = (facts.persistence(), facts.eviction(), promises.loses(facts));
    let losses = format!("{}; {}; {}", persistence.words(), eviction.words(), failover.words());
    let mut info = Info::new(
        "redis",
        server,
        Fencing::WhileDataIsKept {
            clock_step: CLOCK_STEP,
            kept: format!(
                "{}{losses}; after a loss of data, or the promotion of a replica that lags, it rises only if the new \
                 clock is not behind the last token; it need not rise from a primary to the replica that replaced it, \
                 and may be the same, while both answer",
                whose_tokens(layout)
            ),
        },
        Lease::Lock,
        MIN_TTL..=MAX_TTL,
    );
    info.wakes = wakes;
    info.lists = match (layout, promises.successor) {
        // Redisson's counter is there for its own locks, too; and a cluster's keys are spread over its members.
        (Layout::RedissonFenced, _) | (_, Successor::ReplicaOfAMember) => Lists::Nothing,
        (Layout::Own | Layout::Fair(_) | Layout::Redisson, _) => Lists::Held,
    };
    info.takeovers = match promises.acks {
        // The release is not waited for, and the grant is.
        Some(_) => Takeovers::ByRelease,
        None if layout.scripts().take_over.is_some() => Takeovers::InOneRequest,
        None => Takeovers::ByRelease,
    };
    info.clock = CLOCK;
    info.data_loss = format!(
        "a lock that the server has lost can be granted again while its holder still relies on it, and only the \
         fencing token distinguishes the two holders: {losses}"
    );
    // An attempt and a release, and WAIT where replicas have to acknowledge.
    info.requests_per_hand_over = if promises.acks.is_some() { 3 } else { 2 };
    info.fair = match layout {
        Layout::Fair(_) => Fair::PerProcess,
        Layout::Own | Layout::Redisson | Layout::RedissonFenced => Fair::No,
    };
    info
}

/// Says which holders have a token, and where it comes from.
fn whose_tokens(layout: Layout) -> &'static str {
    match layout {
        Layout::Own | Layout::Fair(_) => "",
        Layout::Redisson => {
            "for holders of this library alone: a holder that uses Redisson has no token, so a resource can't tell which of \
             the two came later; "
        }
        Layout::RedissonFenced => {
            "a counter that Redisson's RFencedLock counts on with, so that its holders and this library's are in one order; \
             no clock has a part in it, and after a loss of data it begins again at what is left; "
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(url: &str) -> Profile {
        Profile::new(&Redis::from_url(url).unwrap().prefix("app:").unwrap())
    }

    #[test]
    fn what_is_learned_of_one_thing_leaves_the_other() {
        let profile = profile("redis://h:1/2");
        assert_eq!(profile.get().wakes, Wakes::Pushed);
        profile.learn_wakes(Wakes::Polled);
        profile.learn(&Facts::default());
        assert_eq!((profile.get().wakes, profile.get().server.as_str()), (Wakes::Polled, "h:1 (database 2)"));
        assert!(profile.get().fencing.to_string().contains("1 h"));
        assert!(profile.get().data_loss.contains("unknown"));
    }

    #[test]
    fn the_server_is_known_by_its_run() {
        let profile = profile("redis://h:1/2");
        assert_eq!(profile.get().identity, None, "no server has been asked yet");
        profile.learn(&Facts { run: Some("f00d".into()), ..Facts::default() });
        profile.learn_wakes(Wakes::Polled);
        assert_eq!(profile.get().identity.as_deref(), Some("f00d 2 app:"));
    }

    #[test]
    fn a_failover_loses_grants_with_or_without_replicas() {
        for url in ["redis://a,b", "redis+sentinel://a/m"] {
            let profile = profile(url);
            for facts in [Facts::default(), Facts { replicas: Some(0), ..Facts::default() }] {
                profile.learn(&facts);
                let told = profile.get().data_loss.clone();
                assert!(told.contains("a failover loses"), "{url}: {told}");
            }
        }
        assert!(!profile("redis://a").get().data_loss.contains("a failover loses"));
    }

    #[test]
    fn a_failover_keeps_acknowledged_grants() {
        let profile = profile("redis://a,b,c?ack=1");
        let told = |replicas| {
            profile.learn(&Facts { replicas: Some(replicas), ..Facts::default() });
            profile.get().data_loss.clone()
        };
        assert!(told(1).contains("(ack=1)") && !told(1).contains("another of the"), "{}", told(1));
        assert!(told(3).contains("to another of the 3 attached"), "{}", told(3));
        assert_eq!(profile.get().requests_per_hand_over, 3);
    }
}
