//! The kind of a node in a lock's directory. The name alone doesn't decide it: a node that no session keeps is no
//! ticket, and would never go.

use zookeeper_client::Stat;

use crate::layout;

/// The kind of a node in a lock's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A place in the queue. It goes with its session.
    Ticket,
    /// The directory of another lock, or another node whose name ends in ten digits: it is passed over.
    Other,
    /// A persistent node with the name of a ticket: no session keeps it, and its creator has to remove it.
    Persistent,
}

/// The owner that the server shows for a container: a node that the server removes once it is empty.
const CONTAINER: i64 = i64::MIN;

impl Kind {
    pub(crate) fn of(name: &str, stat: &Stat) -> Kind {
        Kind::judge(name, stat.ephemeral_owner, stat.num_children)
    }

    fn judge(name: &str, owner: i64, children: i32) -> Kind {
        match owner {
            CONTAINER => Kind::Other,
            0 if children > 0 || !layout::is_marked(name) => Kind::Other,
            0 => Kind::Persistent,
            _ => Kind::Ticket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_session_keeps_is_no_ticket() {
        for (name, owner, children, kind) in [
            ("_c_x-lock-0000000000", 0x0100_0000_0000_0001, 0, Kind::Ticket),
            ("run-1700000000", 0x0100_0000_0000_0001, 0, Kind::Ticket),
            ("a-lock-0000000000", CONTAINER + 1, 0, Kind::Ticket),
            ("a-lock-0000000000", CONTAINER, 0, Kind::Other),
            ("a-lock-0000000000", 0, 1, Kind::Other),
            ("run-1700000000", 0, 0, Kind::Other),
            ("a-lock-0000000000", 0, 0, Kind::Persistent),
            ("a__lock__0000000000", 0, 0, Kind::Persistent),
        ] {
            assert_eq!(Kind::judge(name, owner, children), kind, "{name} of {owner:x}, {children} below");
        }
    }
}
