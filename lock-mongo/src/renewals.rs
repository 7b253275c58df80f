//! Renewals of leases: one lock's document by a `findAndModify`, or the documents of many locks by one
//! update.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Result;
use lock_core::driver::Request;
use lock_core::toolkit::{Call, HeldKey, Renews, whole_millis};
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::ErrorKind;
use mongodb::options::ReturnDocument;

use crate::claim_session::ClaimSession;
use crate::link::{majority_in_command, primary_only};
use crate::server::{IfMissing, Server, Write};
use crate::statements;

impl Server {
    /// Renews the lease of the request's owner. Returns what is left of it then; `None` if the lock isn't this owner's any
    /// more.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        call: &Call,
        request: &Request,
        ttl: Duration,
    ) -> Result<Option<Duration>> {
        let key = self.prefix.key(&request.name).into_bytes().into();
        self.renewals.renew(self, call, HeldKey { key, owner: request.owner }, ttl).await
    }
}

impl Renews for Server {
    /// In a session of its own: for a renewal only the time counts, not the order of the claim's requests.
    async fn one(&self, call: &Call, held: &HeldKey, ttl: Duration) -> Result<Option<Duration>> {
        let renew = Write {
            filter: doc! { "_id": statements::bytes(&held.key) },
            pipeline: statements::renew(&statements::bytes(held.owner.as_bytes()), whole_millis(ttl)),
            if_missing: IfMissing::Skip,
            answer: ReturnDocument::After,
        };
        let record = self.write(call, &mut ClaimSession::default(), renew).await?;
        Ok(record.filter(|record| record.is_of(&held.owner)).and_then(|record| record.left()))
    }

    /// The server only counts the documents that it has renewed. So it tells of all leases, or of none: each is then
    /// renewed by itself, which also tells why one was lost.
    async fn many(&self, call: &Call, held: Vec<HeldKey>, ttl: Duration) -> Result<Vec<Option<Duration>>> {
        let (link, all) = (self.link(), held.len());
        let limit = (call.left() / 2).min(LONGEST);
        let renew = renew_many(link.locks().name(), &held, whole_millis(ttl), limit);
        let asking = link.clone();
        let answer = self.ask(call, &link, async move {
            let renew = asking.database().run_command(renew).selection_criteria(primary_only()).await;
            match renew {
                Err(e) if matches!(*e.kind, ErrorKind::Command(_)) => Ok(None),
                answer => answer.map(Some),
            }
        });
        let renewed = answer.await?.as_ref().and_then(renewed);
        Ok(vec![(renewed == Some(all)).then_some(ttl); all])
    }
}

/// The time for which the server may work on the leases of many locks. A transaction of a user that is open on one of
/// the documents would otherwise delay all of them.
const LONGEST: Duration = Duration::from_secs(1);

fn renew_many(collection: &str, held: &[HeldKey], ttl: i64, limit: Duration) -> Document {
    let keys: Vec<Bson> = held.iter().map(|held| statements::bytes(&held.key)).collect();
    let owners: Vec<Bson> = held.iter().map(|held| statements::bytes(held.owner.as_bytes())).collect();
    doc! {
        "update": collection,
        "updates": [{
            "q": statements::held_by(keys, owners),
            "u": statements::renew_held(ttl),
            "multi": true,
        }],
        "writeConcern": majority_in_command(),
        "maxTimeMS": whole_millis(limit).max(1),
    }
}

/// Returns how many documents the update has renewed; `None` if the server answers that it did not do all that was asked
/// for, or that a majority has not acknowledged it.
fn renewed(answer: &Document) -> Option<usize> {
    if answer.contains_key("writeErrors") || answer.contains_key("writeConcernError") {
        return None;
    }
    usize::try_from(answer.get_i32("n").ok()?).ok()
}
