//! The token that a try proposes to all nodes, so that the first majority agrees on it.
//!
//! A node mints the highest of three numbers: its last token plus one, its clock, and the proposal. A proposal that is
//! above the clocks of all nodes, and above their last tokens, is therefore what each of them mints. Nothing depends on
//! it but the number of rounds: the token of a node rises with every grant, whatever is proposed to it.

use std::time::Duration;

use lock_core::FencingToken;

use crate::node::Node;
use crate::quorum::Quorum;

/// By how much the proposal is above the clocks: for a request that takes so much longer than the last one, and for
/// clocks that have gone apart by so much since the last answer.
const MARGIN: Duration = Duration::from_millis(20);

/// The time by which the proposal follows a clock that is ahead of the others. A node takes no proposal that is more
/// than a second above its own clock, so a higher one would be the token of that one node.
const REACH: Duration = Duration::from_millis(900);

impl<N: Node> Quorum<N> {
    /// Returns the token to propose to all nodes. `None` if the clock of no node is known yet.
    pub(crate) fn proposes(&self) -> Option<FencingToken> {
        let now = self.clock().now();
        proposal(self.nodes().iter().filter_map(|node| node.on_arrival(now)).collect())
    }
}

/// Returns a token above the highest of these clocks that is not far above most of them.
fn proposal(mut clocks: Vec<i64>) -> Option<FencingToken> {
    clocks.sort_unstable();
    let median = *clocks.get(clocks.len().checked_sub(1)? / 2)?;
    let reach = median.saturating_add(micros(REACH));
    let highest = clocks.into_iter().take_while(|clock| *clock <= reach).last()?;
    FencingToken::new(u64::try_from(highest.saturating_add(micros(MARGIN))).ok()?)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::proposal;

    const NOW: i64 = 1_700_000_000_000_000;
    const SECOND: i64 = 1_000_000;

    /// Returns by how much the proposal is above `NOW`, when the clocks are above it by so much.
    fn above(clocks: &[i64]) -> i64 {
        let token = proposal(clocks.iter().map(|clock| NOW + clock).collect()).unwrap();
        i64::try_from(token.get()).unwrap() - NOW
    }

    #[test]
    fn it_is_above_the_highest_clock() {
        assert_eq!(above(&[0, 3_000, 1_000]), 23_000);
        assert_eq!(above(&[0, 900_000, 0, 0, 0]), 920_000);
        assert_eq!(above(&[7]), 20_007, "the only node that has answered");
    }

    #[test]
    fn a_proposal_follows_no_minority_far_ahead() {
        assert_eq!(above(&[0, 1_000, 3600 * SECOND]), 21_000);
        assert_eq!(above(&[0, 1_000, 2_000, 900_000 + 2_001, 3600 * SECOND]), 22_000);
        assert_eq!(above(&[0, 3600 * SECOND, 3600 * SECOND]), 3600 * SECOND + 20_000, "a majority is ahead");
    }

    #[test]
    fn without_a_clock_nothing_is_proposed() {
        assert_eq!(proposal(Vec::new()), None);
        assert_eq!(proposal(vec![-3600 * SECOND]), None, "no node's clock shows a time before 1970");
    }
}
