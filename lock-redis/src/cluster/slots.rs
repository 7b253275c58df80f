//! Which member has which slot, as far as the client knows.

use std::collections::BTreeSet;
use std::sync::Arc;

use lock_core::Result;
use redis::Value;

use crate::scripts::unexpected;
use crate::side::SLOTS;

/// A member's address, as `host:port`.
pub(crate) type Address = Arc<str>;

/// The members by their slots.
#[derive(Debug)]
pub(crate) struct Slots {
    members: Vec<Option<Address>>,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { members: vec![None; SLOTS] }
    }
}

impl Slots {
    /// Parses an answer to `CLUSTER SLOTS`. `asked` is the host that gave it: a member that knows no name of its own leaves
    /// it out.
    pub(crate) fn parse(answer: &Value, asked: &str) -> Result<Slots> {
        let malformed = || unexpected(answer);
        let Value::Array(ranges) = answer else { return Err(malformed()) };
        let mut slots = Slots::default();
        for range in ranges {
            let Value::Array(range) = range else { return Err(malformed()) };
            let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &range[..] else {
                return Err(malformed());
            };
            let [host, Value::Int(port), ..] = &primary[..] else { return Err(malformed()) };
            let host: Option<String> = redis::from_redis_value_ref(host).ok();
            let host =
                host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.to_owned());
            let address: Address = format!("{host}:{port}").into();
            let index = |slot: &i64| usize::try_from(*slot).ok().filter(|slot| *slot < SLOTS);
            let (first, last) = (index(first).ok_or_else(malformed)?, index(last).ok_or_else(malformed)?);
            for slot in slots.members.get_mut(first..=last).ok_or_else(malformed)? {
                *slot = Some(address.clone());
            }
        }
        Ok(slots)
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

#[cfg(test)]
mod tests {
    use redis::parse_redis_value;

    use super::*;

    fn parsed(answer: &str) -> Result<Slots> {
        Slots::parse(&parse_redis_value(answer.as_bytes()).unwrap(), "asked")
    }

    #[test]
    fn each_slot_is_its_primarys() {
        let slots = parsed(
            "*2\r\n*4\r\n:0\r\n:99\r\n*3\r\n$1\r\na\r\n:1\r\n$2\r\nid\r\n*3\r\n$1\r\nb\r\n:2\r\n$2\r\nid\r\n\
             *3\r\n:100\r\n:16383\r\n*3\r\n$0\r\n\r\n:3\r\n$2\r\nid\r\n",
        );
        let mut slots = slots.unwrap();
        let member = |slots: &Slots, slot| slots.member(slot).map(ToString::to_string);
        assert_eq!(member(&slots, 0).as_deref(), Some("a:1"));
        assert_eq!(member(&slots, 99).as_deref(), Some("a:1"));
        assert_eq!(member(&slots, 16_383).as_deref(), Some("asked:3"), "it has no name for itself");
        assert_eq!((slots.all().len(), slots.missing()), (2, 0));
        slots.moved(99, "c:9".into());
        assert_eq!(member(&slots, 99).as_deref(), Some("c:9"));
        assert_eq!(Slots::default().missing(), SLOTS);
    }

    #[test]
    fn another_answer_is_refused() {
        for other in ["+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n"] {
            assert!(parsed(other).is_err(), "{other:?}");
        }
    }
}
