//! The member of each slot, as far as the client knows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lock_core::Result;
use redis::Value;

use crate::scripts::unexpected;
use crate::side::SLOTS;

/// A member's address, as `host:port`.
pub(crate) type Address = Arc<str>;

/// The members by their slots.
#[derive(Debug)]
pub(crate) struct HashSlots {
    members: Vec<Option<Address>>,
    /// The hosts that the asked member knows.
    hosts: KnownHosts,
}

/// The hosts that a member knows: all members', or some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownHosts {
    All,
    InPart,
}

/// Returns the host of another member, as a member reports it. An empty one is the host of the member itself,
/// as its client reaches it. `None` for a question mark: it does not know the host.
pub(crate) fn host_of<'a>(told: &'a str, teller: &'a str) -> Option<&'a str> {
    match told {
        "" => Some(teller),
        "?" => None,
        host => Some(host),
    }
}

impl Default for HashSlots {
    fn default() -> HashSlots {
        HashSlots { members: vec![None; SLOTS], hosts: KnownHosts::All }
    }
}

impl HashSlots {
    /// Parses an answer to `CLUSTER SLOTS`. `asked` is the host that gave it.
    pub(crate) fn parse(answer: &Value, asked: &str) -> Result<HashSlots> {
        let malformed = || unexpected(answer);
        let Value::Array(ranges) = answer else { return Err(malformed()) };
        let mut slots = HashSlots::default();
        for range in ranges {
            let Value::Array(range) = range else { return Err(malformed()) };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &range[..] else {
                return Err(malformed());
            };
            let [host, Value::Int(port), more @ ..] = &primary[..] else { return Err(malformed()) };
            // Nil: an empty one.
            let host: String = redis::from_redis_value_ref(host).unwrap_or_default();
            let ip = ip_in(more);
            let Some(host) = host_of(&host, asked).or_else(|| host_of(ip.as_deref()?, asked)) else {
                slots.hosts = KnownHosts::InPart;
                continue;
            };
            let address: Address = format!("{host}:{port}").into();
            let index = |slot: &i64| usize::try_from(*slot).ok().filter(|slot| *slot < SLOTS);
            let (first, last) = (index(first).ok_or_else(malformed)?, index(last).ok_or_else(malformed)?);
            for slot in slots.members.get_mut(first..=last).ok_or_else(malformed)? {
                *slot = Some(address.clone());
            }
        }
        Ok(slots)
    }

    /// Returns whether the hosts of all members were told. If not, another member may know more of them.
    pub(crate) fn hosts(&self) -> KnownHosts {
        self.hosts
    }

    /// Returns the member that has this slot, if one is known.
    pub(crate) fn member(&self, slot: u16) -> Option<&Address> {
        self.members.get(usize::from(slot))?.as_ref()
    }

    /// Records that the slot belongs to this member now.
    pub(crate) fn moved(&mut self, slot: u16, to: Address) {
        if let Some(member) = self.members.get_mut(usize::from(slot)) {
            *member = Some(to);
        }
    }

    /// Returns the members that have a slot.
    pub(crate) fn all(&self) -> BTreeSet<&Address> {
        self.members.iter().flatten().collect()
    }

    /// Returns how many slots no member has.
    pub(crate) fn missing(&self) -> usize {
        self.members.iter().filter(|member| member.is_none()).count()
    }
}

/// Returns the IP address in what is behind a member's host and port, which is there if the host is a name.
fn ip_in(more: &[Value]) -> Option<String> {
    let networking: HashMap<String, String> = redis::from_redis_value_ref(more.get(1)?).ok()?;
    networking.get("ip").cloned()
}

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn parsed(answer: &str) -> Result<HashSlots> {
        HashSlots::parse(&parse_redis_value(answer.as_bytes()).unwrap(), "asked")
    }

    #[test]
    fn each_slot_is_its_primarys() {
        let slots = parsed(
            "*2\r\n*4\r\n:0\r\n:99\r\n*3\r\n$1\r\na\r\n:1\r\n$2\r\nid\r\n*3\r\n$1\r\nb\r\n:2\r\n$2\r\nid\r\n\
             *3\r\n:100\r\n:16383\r\n*3\r\n$0\r\n\r\n:3\r\n$2\r\nid\r\n",
        );
        let mut slots = slots.unwrap();
        let member = |slots: &HashSlots, slot| slots.member(slot).map(ToString::to_string);
        assert_eq!(member(&slots, 0).as_deref(), Some("a:1"));
        assert_eq!(member(&slots, 99).as_deref(), Some("a:1"));
        assert_eq!(member(&slots, 16_383).as_deref(), Some("asked:3"), "it has no name for itself");
        assert_eq!((slots.all().len(), slots.missing()), (2, 0));
        slots.moved(99, "c:9".into());
        assert_eq!(member(&slots, 99).as_deref(), Some("c:9"));
        assert_eq!(HashSlots::default().missing(), SLOTS);
    }

    /// As Redis 7 answers if members have to be told by names, and have none.
    #[test]
    fn an_unnamed_member_has_its_address_or_none() {
        let member = |host: &str, ip: Option<&str>| {
            let networking = ip.map_or_else(String::new, |ip| format!("%1\r\n+ip\r\n+{ip}\r\n"));
            let parts = if ip.is_some() { 4 } else { 3 };
            let slots =
                format!("*1\r\n*3\r\n:0\r\n:16383\r\n*{parts}\r\n+{host}\r\n:3\r\n+id\r\n{networking}");
            let slots = parsed(&slots).unwrap();
            (slots.member(7).map(ToString::to_string), slots.hosts())
        };
        assert_eq!(member("?", Some("10.0.0.7")), (Some("10.0.0.7:3".into()), KnownHosts::All));
        assert_eq!(member("name", Some("10.0.0.7")), (Some("name:3".into()), KnownHosts::All));
        assert_eq!(member("?", None), (None, KnownHosts::InPart));
        assert_eq!(member("", None), (Some("asked:3".into()), KnownHosts::All));
    }

    #[test]
    fn another_answer_is_refused() {
        for other in ["+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n"] {
            assert!(parsed(other).is_err(), "{other:?}");
        }
    }
}
