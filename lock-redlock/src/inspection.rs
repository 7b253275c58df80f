//! Puts together what the nodes show of a lock.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Entry, Inspection};
use lock_redis::node;

use crate::node::{Ask, Held, Keys, Node};
use crate::quorum::{Answer, Quorum};

/// The time limit for nodes that have not answered, if only the token is still unknown. A caller whose own wait is
/// over waits for 50 ms in all.
const FOR_THE_TOKEN: Duration = Duration::from_millis(20);

impl<N: Node> Quorum<N> {
    /// Returns who holds the lock, as far as a majority shows it. If fewer nodes have answered, the error is their
    /// answers. A silent node is not waited for once a majority shows the same holder and token, or none can any more,
    /// and only for a short time if only the token is missing.
    pub async fn inspect(
        &self,
        keys: Arc<Keys>,
        patience: Duration,
    ) -> Result<Inspection, Vec<Answer<Option<Held>>>> {
        let ask =
            Ask { keys, value: "".into(), earlier: [].into(), ttl: Duration::ZERO, longest: Duration::ZERO };
        let mut looks = self.ask_all(|node| {
            let ask = ask.clone();
            async move { node.look(ask, patience).await }
        });
        let mut answers: Vec<Answer<Option<Held>>> = Vec::new();
        let (mut held, mut to_come) = (Vec::new(), self.nodes().len());
        loop {
            let inspection = shown(held.iter().cloned(), self.majority());
            let answered = answers.iter().filter(|(_, look)| look.is_ok()).count();
            let is_open = most_that_agree(&held) + to_come >= self.majority();
            let look = match &inspection.holder {
                _ if answered >= self.majority() && (to_come == 0 || !is_open) => return Ok(inspection),
                Some(holder) if holder.token.is_some() => return Ok(inspection),
                Some(_) => match self.clock().timeout(FOR_THE_TOKEN, looks.next()).await {
                    Some(look) => look,
                    None => return Ok(inspection),
                },
                None => looks.next().await,
            };
            let Some((at, look)) = look else { break };
            to_come -= 1;
            held.extend(look.as_ref().ok().cloned().flatten());
            answers.push((at, look));
        }
        answers.sort_by_key(|(at, _)| *at);
        Err(answers)
    }
}

/// Returns who holds the lock, as far as a majority shows it.
fn shown(held: impl Iterator<Item = Held>, majority: usize) -> Inspection {
    Inspection::new(held_by_a_majority(held, majority).map(entry), None)
}

/// Returns what people are shown of a holder.
pub(crate) fn entry(Held { value, left, token, now }: Held) -> Entry {
    // A proposed token is a little above the time of its grant, so `since` may be too short by that, and is
    // never too long.
    node::entry(value, left, token, now)
}

/// Returns how many nodes show this value.
pub(crate) fn that_show(shown: &[Held], value: &[u8]) -> usize {
    shown.iter().filter(|held| held.value == value).count()
}

/// Returns how many nodes show the value that most of them show.
pub(crate) fn most_that_agree(shown: &[Held]) -> usize {
    shown.iter().map(|held| that_show(shown, &held.value)).max().unwrap_or(0)
}

/// Returns the holder that a majority of the nodes shows.
fn held_by_a_majority(held: impl Iterator<Item = Held>, majority: usize) -> Option<Held> {
    let mut by_value: BTreeMap<Vec<u8>, Vec<Held>> = BTreeMap::new();
    for held in held {
        by_value.entry(held.value.clone()).or_default().push(held);
    }
    let mut nodes = by_value.into_values().find(|nodes| nodes.len() >= majority)?;
    nodes.sort_by_key(|held| Reverse(held.left));
    let left = nodes.get(majority - 1)?.left;
    // The token that a majority has acknowledged. A node that granted late may have another one. If so few have
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
    fn a_holder_is_shown_while_a_majority_keeps_it() {
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
