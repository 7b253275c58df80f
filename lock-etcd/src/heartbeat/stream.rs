//! Keep-alives: a stream of them for one lease, on one link.

use std::sync::Arc;

use etcd_client::{LeaseKeepAliveStream, LeaseKeeper};
use lock_core::Instant;
use lock_core::toolkit::Call;

use super::Heartbeat;
use crate::cluster::Cluster;
use crate::lease::Lease;
use crate::link::Link;

/// A stream of keep-alives for one lease, on one link.
pub(super) struct KeepAliveStream {
    lease: i64,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
    link: Arc<Link>,
}

/// The outcome of a keep-alive.
pub(super) enum Kept {
    /// When it was sent, and the raft term of its answer.
    Yes {
        asked: Instant,
        term: u64,
    },
    /// The server does not know the lease.
    No,
    Unknown,
}

impl Heartbeat {
    /// Prolongs the lease.
    pub(super) async fn keep(&mut self, lease: Lease) -> Kept {
        let (cluster, step) = (self.cluster.clone(), self.step());
        let mut stream = match self.stream.take().filter(|stream| stream.lease == lease.id) {
            Some(stream) => stream,
            None => match KeepAliveStream::open(&cluster, &Call::begin(&cluster.clock, step), lease.id).await
            {
                Ok(stream) => stream,
                Err(kept) => return kept,
            },
        };
        // A call of its own: opening the stream has used another one, because it may be slow.
        let call = &Call::begin(&cluster.clock, step);
        let answer = call.within(async {
            stream.keeper.keep_alive().await?;
            stream.answers.message().await
        });
        match answer.await {
            // A stream that timed out is dropped. Answers carry no number, so a late one would be taken for the next.
            None => {
                cluster.give_up_if_silent(&stream.link, call);
                Kept::Unknown
            }
            Some(Ok(Some(answer))) => {
                stream.link.note_answer(&cluster.clock);
                let term = answer.header().map_or(0, etcd_client::ResponseHeader::raft_term);
                let is_kept = answer.ttl() > 0;
                self.stream = Some(stream);
                if is_kept { Kept::Yes { asked: call.began(), term } } else { Kept::No }
            }
            Some(_) => {
                cluster.give_up(&stream.link);
                Kept::Unknown
            }
        }
    }
}

impl KeepAliveStream {
    /// Opens a stream. etcd-client sends a first keep-alive with it and discards the header of its answer, so that one
    /// does not count.
    async fn open(cluster: &Cluster, call: &Call, lease: i64) -> Result<KeepAliveStream, Kept> {
        let link = cluster.link(call).await.map_err(|_| Kept::Unknown)?;
        let mut leases = link.client.lease_client();
        match call.within(leases.keep_alive(lease)).await {
            Some(Ok((keeper, answers))) => Ok(KeepAliveStream { lease, keeper, answers, link }),
            Some(Err(e)) if crate::errors::is_without_lease(&e) => Err(Kept::No),
            Some(Err(_)) => {
                cluster.give_up(&link);
                Err(Kept::Unknown)
            }
            None => {
                cluster.give_up_if_silent(&link, call);
                Err(Kept::Unknown)
            }
        }
    }
}
