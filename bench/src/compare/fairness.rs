//! How evenly a lock was shared among its contenders.

/// Returns Jain's index of the contenders' counts: 1 if all are equal, 1/n if one of n has everything. `None` if no
/// contender was granted the lock.
pub(super) fn jain(grants: &[u64]) -> Option<f64> {
    let sum: f64 = grants.iter().map(|count| *count as f64).sum();
    let squares: f64 = grants.iter().map(|count| (*count as f64).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (grants.len() as f64 * squares))
}

/// Returns the least count as a share of the mean. `None` if no contender was granted the lock.
pub(super) fn slowest_share(grants: &[u64]) -> Option<f64> {
    let sum: u64 = grants.iter().sum();
    let least = *grants.iter().min()?;
    (sum > 0).then(|| least as f64 * grants.len() as f64 / sum as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_have_an_index_of_one() {
        assert_eq!((jain(&[7, 7, 7]), slowest_share(&[7, 7, 7])), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn one_of_four_with_everything_has_a_quarter() {
        assert_eq!((jain(&[0, 9, 0, 0]), slowest_share(&[0, 9, 0, 0])), (Some(0.25), Some(0.0)));
    }

    #[test]
    fn without_a_grant_there_is_no_index() {
        assert_eq!(
            (jain(&[0, 0]), slowest_share(&[0, 0]), jain(&[]), slowest_share(&[])),
            (None, None, None, None)
        );
    }
}
