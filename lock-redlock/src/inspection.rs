//! What the nodes show of a lock, put together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use lock_core::driver::Inspection;
use lock_redis::node;

use crate::node::Held;

/// Who holds the lock, as far as a majority says so.
pub(crate) fn shown(held: impl Iterator<Item = Held>, majority: usize) -> Inspection {
    let holder = held_by_a_majority(held, majority)
        .map(|Held { value, left, token, now }| node::entry(value, left, token, now));
    Inspection { holder, waiters: None }
}

/// How many nodes show this value.
pub(crate) fn that_show(shown: &[Held], value: &[u8]) -> usize {
    shown.iter().filter(|held| held.value == value).count()
}

/// How many nodes show the value that most of them show.
pub(crate) fn most_that_agree(shown: &[Held]) -> usize {
    shown.iter().map(|held| that_show(shown, &held.value)).max().unwrap_or(0)
}

/// What a majority of the nodes shows of the same holder.
fn held_by_a_majority(held: impl Iterator<Item = Held>, majority: usize) -> Option<Held> {
    let mut by_value: BTreeMap<Vec<u8>, Vec<Held>> = BTreeMap::new();
    for held in held {
        by_value.entry(held.value.clone()).or_default().push(held);
    }
    let mut nodes = by_value.into_values().find(|nodes| nodes.len() >= majority)?;
    nodes.sort_by_key(|held| Reverse(held.left));
    let left = nodes.get(majority - 1)?.left;
    // The token that a majority has acknowledged. A node that came late to the grant may have another; where so few have
    // answered that no majority has the same, the token is not known.
    let is_agreed =
        |token: &Option<i64>| nodes.iter().filter(|held| held.token == *token).count() >= majority;
    let token = nodes.iter().map(|held| held.token).find(is_agreed).flatten();
    Some(Held { left, token, ..nodes.swap_remove(0) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::held_by_a_majority;
    use crate::node::Held;

    const MAJORITY: usize = 3;

    fn held(value: &str, seconds: u64, token: i64) -> Held {
        let left = Some(Duration::from_secs(seconds));
        Held { value: value.into(), left, token: Some(token), now: 0 }
    }

    fn seen<const N: usize>(nodes: [Held; N]) -> Option<(Vec<u8>, Option<Duration>, Option<i64>)> {
        held_by_a_majority(nodes.into_iter(), MAJORITY).map(|held| (held.value, held.left, held.token))
    }

    #[test]
    fn a_holder_is_shown_for_as_long_as_a_majority_keeps_it() {
        let shown =
            seen([held("a", 9, 7), held("a", 3, 7), held("a", 5, 7), held("b", 9, 8), held("a", 4, 9)]);
        assert_eq!(shown, Some((b"a".to_vec(), Some(Duration::from_secs(4)), Some(7))));
        assert_eq!(seen([held("a", 9, 7), held("a", 9, 7), held("b", 9, 8), held("b", 9, 8)]), None);
    }

    #[test]
    fn a_token_that_no_majority_has_is_not_shown() {
        let shown = seen([held("a", 5, 7), held("a", 5, 7), held("a", 5, 9)]);
        assert_eq!(shown, Some((b"a".to_vec(), Some(Duration::from_secs(5)), None)));
    }
}
