//! Leases. The client chooses their ids, so that a grant whose outcome is unknown can be settled by granting the same
//! id again.

use std::time::Duration;

use lock_core::toolkit::Call;
use lock_core::{Error, Instant, Random, Result};

use crate::cluster::{Cluster, RequestError};

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
                let answer = cluster.time_to_live(call, self.id).await.map_err(not_applied)?;
                if answer.granted_ttl() <= 0 {
                    return Err(RequestError::NoLease.into());
                }
                Ok(Lease { id: self.id, term: 0, ttl: seconds(answer.granted_ttl()) })
            }
            Err(error) => Err(not_applied(error)),
        }
    }
}

fn not_applied(error: RequestError) -> Error {
    Error::from(error).not_applied()
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_positive_id() {
        let random = Random::system();
        let now = lock_core::Clock::system().now();
        assert!((0..100).all(|_| Grant::new(&random, 1, now).id > 0));
    }
}
