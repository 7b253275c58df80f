//! The two kinds of Redis' publish and subscribe, and which of them a server uses for the releases of locks.

use redis::PushKind;

/// The way in which a message reaches the connections that are subscribed to its channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// `PUBLISH`: a member of a cluster passes the message on to all others.
    #[default]
    Global,
    /// `SPUBLISH`: the message stays at the member that has the channel's slot, and at its replicas.
    Sharded,
}

/// The first release of Redis that has sharded channels. Valkey began later.
const SHARDED_SINCE: u32 = 7;

impl Delivery {
    /// Returns how a server announces releases, by what it says to every user. Clients of one lock have to agree, and
    /// so have Redisson and this library: Redisson uses sharded channels on a cluster whose members have them.
    pub(crate) fn of(mode: Option<&str>, version: Option<&str>) -> Delivery {
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        match (mode, major) {
            (Some("cluster"), Some(SHARDED_SINCE..)) => Delivery::Sharded,
            _ => Delivery::Global,
        }
    }

    /// Returns the command that publishes.
    pub(crate) fn publish(self) -> &'static str {
        match self {
            Delivery::Global => "PUBLISH",
            Delivery::Sharded => "SPUBLISH",
        }
    }

    /// Returns the subcommand of `PUBSUB` that counts the connections which are subscribed.
    pub(crate) fn count(self) -> &'static str {
        match self {
            Delivery::Global => "NUMSUB",
            Delivery::Sharded => "SHARDNUMSUB",
        }
    }

    /// Returns the command that subscribes, and the kind of its answer.
    pub(crate) fn subscribe(self) -> (&'static str, PushKind) {
        match self {
            Delivery::Global => ("SUBSCRIBE", PushKind::Subscribe),
            Delivery::Sharded => ("SSUBSCRIBE", PushKind::SSubscribe),
        }
    }

    /// Returns the command that unsubscribes, and the kind of its answer.
    pub(crate) fn unsubscribe(self) -> (&'static str, PushKind) {
        match self {
            Delivery::Global => ("UNSUBSCRIBE", PushKind::Unsubscribe),
            Delivery::Sharded => ("SUNSUBSCRIBE", PushKind::SUnsubscribe),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_members_have_sharded_channels_since_redis_7() {
        let of = |mode, version| Delivery::of(Some(mode), Some(version));
        for version in ["7.0.0", "7.2.4", "8.1.1", "10.0.0"] {
            assert_eq!(of("cluster", version), Delivery::Sharded, "{version}");
            assert_eq!(of("standalone", version), Delivery::Global, "{version}");
        }
        for version in ["6.2.14", "", "unknown"] {
            assert_eq!(of("cluster", version), Delivery::Global, "{version}");
        }
        assert_eq!(Delivery::of(None, None), Delivery::Global);
    }
}
