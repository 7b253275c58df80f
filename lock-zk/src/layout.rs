//! The names of locks on the server, and the order of their nodes: Curator's layout.
//!
//! A lock is a directory. A holder or a waiter has a node there, `_c_<uuid>-lock-<sequence>`, ephemeral and numbered by
//! the server. The uuid is the owner, so that a node whose creation was not answered can be found.

use std::time::Duration;

use lock_core::{Label, Owner, OwnerBytes};

/// The mark that Curator's mutex puts before the sequence.
const MARK: &str = "lock-";
/// The mark that kazoo's lock puts before the sequence.
const KAZOOS: &str = "__lock__";
/// The beginning of the data of a node whose holder is asked to give up, in Curator and here.
const REVOKED: &str = "__REVOKE__";
/// The beginning of our own data: the layout's version. The session's timeout and the label follow.
const OURS: &str = "onelock/1 ";

/// Returns the name as one component of a path. Different names have different components. A character that ZooKeeper
/// refuses there, and `%`, becomes `%` and two hex digits for each byte. A plain name stays as it is.
pub(crate) fn component(name: &str) -> String {
    // The first two are relative paths, and the third is reserved for the server.
    if matches!(name, "." | ".." | "zookeeper") {
        return escaped(name.char_indices().map(|(at, c)| (c, at == 0 || c == '.')));
    }
    escaped(name.chars().map(|c| (c, is_refused(c))))
}

/// Returns the name whose component this is, if it is one.
pub(crate) fn name(component: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut parts = component.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok().filter(|name| self::component(name) == component)
}

fn escaped(chars: impl Iterator<Item = (char, bool)>) -> String {
    let mut out = String::new();
    for (c, escape) in chars {
        if !escape {
            out.push(c);
            continue;
        }
        let mut utf8 = [0; 4];
        for byte in c.encode_utf8(&mut utf8).bytes() {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

/// Returns whether a component can't have this character. The server looks at UTF-16, and refuses characters
/// of two units.
pub(crate) fn is_refused(c: char) -> bool {
    matches!(c, '/' | '%' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Returns the beginning of the name of an owner's node. The server appends the sequence.
pub(crate) fn node_prefix(owner: &Owner) -> String {
    let hex = owner.to_string();
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("_c_{a}-{b}-{c}-{d}-{e}-{MARK}")
}

/// A node in a lock's queue: the place of a holder or of a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) name: String,
    /// The node's number in the queue; `None` if the server's counter has overflowed.
    pub(crate) sequence: Option<i32>,
}

/// The last number that the server gives only once. It gives the next number again and again.
const LAST_SEQUENCE: i32 = i32::MAX - 1;

impl Ticket {
    /// Returns the ticket of a node that is in the queue; `None` for other nodes of the directory.
    fn parse(name: String) -> Option<Ticket> {
        let digits = match name.rfind(MARK) {
            Some(at) => &name[at + MARK.len()..],
            None => name.get(name.len().checked_sub(10)?..)?,
        };
        let number: i64 = digits.parse().ok()?;
        let sequence = i32::try_from(number).ok().filter(|n| (0..=LAST_SEQUENCE).contains(n));
        Some(Ticket { name, sequence })
    }
}

/// Returns the queue, the first ticket first. Tickets without a number are last, in the order of their creation: the
/// caller has to read that for those that [`unnumbered`] returns.
pub(crate) fn queue(children: Vec<String>) -> Vec<Ticket> {
    let mut queue: Vec<Ticket> = children.into_iter().filter_map(Ticket::parse).collect();
    queue.sort_by_key(|ticket| ticket.sequence.unwrap_or(i32::MAX));
    queue
}

/// Returns the tickets without a number, if there are several.
pub(crate) fn unnumbered(queue: &[Ticket]) -> &[Ticket] {
    let from = queue.iter().position(|ticket| ticket.sequence.is_none()).unwrap_or(queue.len());
    if queue.len() - from > 1 { &queue[from..] } else { &[] }
}

/// Returns whether lock clients name their nodes like this. Other nodes may also end in ten digits.
pub(crate) fn is_marked(name: &str) -> bool {
    name.contains(MARK) || name.contains(KAZOOS)
}

/// Returns the kind of client that has created a foreign node.
pub(crate) fn maker(name: &str) -> &'static str {
    if name.contains(KAZOOS) { "kazoo" } else { "another client" }
}

/// Returns the data of a node of ours.
pub(crate) fn data(label: &Label, timeout: Duration) -> Vec<u8> {
    format!("{OURS}timeout={} {label}", timeout.as_millis()).into_bytes()
}

/// Returns the data that a revoke at the holder's deadline writes into the holder's node.
pub(crate) fn revocation(by: &Owner, label: &Label, timeout: Duration) -> Vec<u8> {
    format!("{REVOKED} by={by} timeout={} {label}", timeout.as_millis()).into_bytes()
}

pub(crate) fn is_revoked(data: &[u8]) -> bool {
    data.starts_with(REVOKED.as_bytes())
}

/// The contents of a node's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeData {
    /// The node is ours.
    Ours { label: Label, timeout: Duration },
    /// The node is ours, and was revoked.
    Revoked { by: String, label: Label, timeout: Duration },
    /// The data are another client's, also if they ask the holder to give up.
    Foreign,
}

impl NodeData {
    pub(crate) fn parse(data: &[u8]) -> NodeData {
        std::str::from_utf8(data).ok().and_then(NodeData::parse_ours).unwrap_or(NodeData::Foreign)
    }

    fn parse_ours(text: &str) -> Option<NodeData> {
        let timed = |rest: &str| {
            let (millis, label) = rest.strip_prefix("timeout=")?.split_once(' ')?;
            Some((Duration::from_millis(millis.parse().ok()?), Label::read(label)))
        };
        if let Some(rest) = text.strip_prefix(OURS) {
            let (timeout, label) = timed(rest)?;
            return Some(NodeData::Ours { label, timeout });
        }
        let (by, rest) = text.strip_prefix(REVOKED)?.strip_prefix(" by=")?.split_once(' ')?;
        let (timeout, label) = timed(rest)?;
        Some(NodeData::Revoked { by: by.to_owned(), label, timeout })
    }

    pub(crate) fn label(&self) -> Option<&Label> {
        match self {
            NodeData::Ours { label, .. } | NodeData::Revoked { label, .. } => Some(label),
            NodeData::Foreign => None,
        }
    }

    /// Returns the timeout of the session, for a node of ours.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        match self {
            NodeData::Ours { timeout, .. } | NodeData::Revoked { timeout, .. } => Some(*timeout),
            NodeData::Foreign => None,
        }
    }
}

/// Returns what names the owner: the node's name, and the revoker if it was revoked. The lock is then no longer the
/// former owner's.
pub(crate) fn shown(name: &str, said: &NodeData) -> OwnerBytes {
    let bytes = match said {
        NodeData::Revoked { by, .. } => format!("{name} revoked by {by}"),
        _ => name.to_owned(),
    };
    let ours = match said {
        NodeData::Foreign => None,
        NodeData::Ours { .. } | NodeData::Revoked { .. } => owner(name),
    };
    match ours {
        Some(owner) => OwnerBytes::of(owner, bytes.into_bytes()),
        None => OwnerBytes::new(bytes.into_bytes()),
    }
}

/// Returns the owner whose node this is.
fn owner(name: &str) -> Option<Owner> {
    let (uuid, _) = name.strip_prefix("_c_")?.split_once(MARK)?;
    Owner::parse(uuid.strip_suffix('-')?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lock_core::Random;

    use super::*;

    #[test]
    fn a_name_comes_back_from_its_component() {
        for text in ["a", "a/b", ".", "..", "zookeeper", "50%", "ä\n", "🔒", "%41"] {
            assert_eq!(name(&component(text)).as_deref(), Some(text));
        }
        for other in ["%", "%4", "%zz", "%41", "%ff", "."] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    fn names(queue: &[Ticket]) -> Vec<&str> {
        queue.iter().map(|ticket| ticket.name.as_str()).collect()
    }

    #[test]
    fn a_plain_name_stays_as_it_is() {
        for plain in ["invoices", "a b", "jób", "a.b", "...", "_c_x-lock-1", "ﬁ", "\u{feff}", "zookeepers"]
        {
            assert_eq!(component(plain), plain);
        }
        for (name, expected) in [
            ("a/b", "a%2fb"),
            ("%", "%25"),
            (".", "%2e"),
            ("..", "%2e%2e"),
            ("a\0\n", "a%00%0a"),
            ("🔒", "%f0%9f%94%92"),
            ("\u{fffd}", "%ef%bf%bd"),
            ("\u{e000}", "%ee%80%80"),
            ("zookeeper", "%7aookeeper"),
        ] {
            assert_eq!(component(name), expected);
        }
    }

    #[test]
    fn distinct_names_are_distinct_components() {
        let difficult = [
            "a/b",
            "a%2fb",
            "a%2Fb",
            "%2e",
            ".",
            "%252e",
            "..",
            "%2e%2e",
            "%2e.",
            "zookeeper",
            "%7aookeeper",
        ];
        let components: BTreeSet<String> = difficult.iter().map(|name| component(name)).collect();
        assert_eq!(components.len(), difficult.len());
        assert!(components.iter().all(|c| !c.contains('/') && c != "." && c != ".."));
    }

    #[test]
    fn an_owner_is_a_uuid() {
        let owner = Owner::mint(&Random::system());
        let prefix = node_prefix(&owner);
        let uuid = prefix.strip_prefix("_c_").unwrap().strip_suffix("-lock-").unwrap();
        assert_eq!(uuid.replace('-', ""), owner.to_string());
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
    }

    #[test]
    fn the_queue_is_curators_with_kazoos_nodes_in_it() {
        let children = [
            "_c_ffffffff-0000-0000-0000-000000000000-lock-0000000003",
            "_c_00000000-lock-0000-0000-000000000000-lock-0000000004",
            "0123456789abcdef__lock__0000000002",
            "lock-0000000001",
            "config",
            "leases",
        ];
        let queue = queue(children.map(String::from).to_vec());
        assert_eq!(names(&queue), [children[3], children[2], children[0], children[1]]);
    }

    #[test]
    fn what_the_counter_numbers_no_more_stands_last() {
        let children = [
            "lock-2147483647",
            "a-lock--000000001",
            "b-lock-2147483647",
            "c-lock-2147483646",
            "d-lock-0000000007",
        ];
        let queue = queue(children.map(String::from).to_vec());
        assert_eq!(names(&queue[..2]), ["d-lock-0000000007", "c-lock-2147483646"]);
        assert_eq!(unnumbered(&queue).len(), 3);
        assert!(unnumbered(&queue[..3]).is_empty(), "a single one needs no comparison");
    }

    #[test]
    fn data_have_label_and_timeout() {
        let (label, owner) = (Label::new("deploy@web-3 pid 7"), Owner::mint(&Random::system()));
        let ours = NodeData::parse(&data(&label, Duration::from_secs(30)));
        assert_eq!(ours, NodeData::Ours { label: label.clone(), timeout: Duration::from_secs(30) });
        let data = revocation(&owner, &label, Duration::from_secs(30));
        let revoked = NodeData::parse(&data);
        assert!(is_revoked(&data) && is_revoked(b"__REVOKE__"));
        assert_eq!((revoked.label(), revoked.timeout()), (ours.label(), ours.timeout()));
        let node = format!("{}0000000007", node_prefix(&owner));
        for said in [&ours, &revoked] {
            assert_eq!(shown(&node, said).to_string(), owner.to_string(), "as its holder is shown");
        }
        assert_eq!(shown(&node, &NodeData::Foreign).to_string(), node);
        assert_eq!(shown("n", &revoked).as_bytes(), format!("n revoked by {owner}").as_bytes());
        for foreign in [&b"__REVOKE__"[..], b"10.0.0.7", &[0xff], b"", b"onelock/1 timeout=x y"] {
            assert_eq!(NodeData::parse(foreign), NodeData::Foreign);
        }
    }
}
