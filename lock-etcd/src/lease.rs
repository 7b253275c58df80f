//! Leases. The client chooses their ids, so that a grant whose outcome is unknown can be settled by granting the same
//! id again.

use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Instant, Random, Result};

use crate::cluster::{Cluster, RequestError};
use crate::errors;

/// A lease that the server has granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) id: i64,
    /// The raft term of the answer to its grant. A leader of an earlier term does not know the lease.
    pub(crate) term: u64,
    pub(crate) ttl: Duration,
}

/// A requested grant, which may have been made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    id: i64,
    seconds: i64,
    /// A moment before the first request: the lease lives from then for at least its ttl.
    pub(crate) asked: Instant,
}

impl Grant {
    pub(crate) fn new(random: &Random, seconds: i64, asked: Instant) -> Grant {
        let mut id = [0; 8];
        random.fill(&mut id);
        // A positive number: with zero, the server would choose the id.
        let id = (i64::from_be_bytes(id) & i64::MAX).max(1);
        Grant { id, seconds, asked }
    }

    /// Requests the lease, if necessary once more. An error means that no lock is held under it.
    pub(crate) async fn ask(self, cluster: &Cluster, call: &Call) -> Result<Lease> {
        match cluster.grant(call, self.id, self.seconds).await {
            Ok(answer) => {
                let term = answer.header().map_or(0, etcd_client::ResponseHeader::raft_term);
                cluster.set_term(term);
                Ok(Lease { id: self.id, term, ttl: seconds(answer.ttl()) })
            }
            // The first request was carried out, but its answer, and with it the term, is not known. So the term is set
            // to zero, and everything moves to a fresh lease once an answer shows a term.
            Err(RequestError::LeaseExists) => {
                let answer = cluster.time_to_live(call, self.id).await.map_err(not_done)?;
                if answer.granted_ttl() <= 0 {
                    return Err(not_done(RequestError::NoLease));
                }
                Ok(Lease { id: self.id, term: 0, ttl: seconds(answer.granted_ttl()) })
            }
            Err(error) => Err(not_done(error)),
        }
    }
}

fn not_done(error: RequestError) -> lock_core::Error {
    errors::not_done(error.into())
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

/// Rounds a ttl up to whole seconds, which is how the server counts.
pub(crate) fn whole_seconds(ttl: Duration) -> i64 {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up() {
        for (millis, seconds) in [(1, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
        assert_eq!(whole_seconds(Duration::from_nanos(5_000_000_001)), 6);
    }

    #[test]
    fn a_lease_has_a_positive_id() {
        let random = Random::system();
        let now = lock_core::Clock::system().now();
        assert!((0..100).all(|_| Grant::new(&random, 1, now).id > 0));
    }
}
