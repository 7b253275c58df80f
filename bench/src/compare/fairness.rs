//! How evenly a lock was shared among its contenders.

/// With fewer grants for each contender, one grant more or less would decide.
const FEWEST: u64 = 10;

/// Whether there were enough grants to tell.
fn is_enough(grants: &[u64]) -> bool {
    grants.iter().sum::<u64>() >= FEWEST * grants.len() as u64
}

/// Returns Jain's index of the contenders' counts: 1 if all are equal, 1/n if one of n has everything. `None` if there
/// were too few grants to tell.
pub(super) fn jain(grants: &[u64]) -> Option<f64> {
    let sum: f64 = grants.iter().map(|count| *count as f64).sum();
    let squares: f64 = grants.iter().map(|count| (*count as f64).powi(2)).sum();
    (is_enough(grants) && squares > 0.0).then(|| sum * sum / (grants.len() as f64 * squares))
}

/// Returns the least count as a share of the mean. `None` if there were too few grants to tell.
pub(super) fn slowest_share(grants: &[u64]) -> Option<f64> {
    let sum: u64 = grants.iter().sum();
    let least = *grants.iter().min()?;
    (is_enough(grants) && sum > 0).then(|| least as f64 * grants.len() as f64 / sum as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_have_an_index_of_one() {
        assert_eq!((jain(&[70, 70, 70]), slowest_share(&[70, 70, 70])), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn one_of_four_with_everything_has_a_quarter() {
        assert_eq!((jain(&[0, 90, 0, 0]), slowest_share(&[0, 90, 0, 0])), (Some(0.25), Some(0.0)));
    }

    #[test]
    fn with_few_grants_there_is_no_index() {
        assert_eq!((jain(&[9, 10]), slowest_share(&[9, 10])), (None, None));
        assert_eq!(
            (jain(&[0, 0]), slowest_share(&[0, 0]), jain(&[]), slowest_share(&[])),
            (None, None, None, None)
        );
    }
}
