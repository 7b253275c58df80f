//! Places of foreign clients, found among the keys of deeper names.
//!
//! A foreign place of the name `foo` is directly below `foo/`. All keys of `foo/bar` and similar names are there, too.
//! If there are few keys, all of them are read. If there are many, the server takes long to list even some of them.
//! Then the keys that etcd's own recipe would use are read one by one: those keys are lease ids.

use etcd_client::GetOptions;
use futures_util::future::try_join_all;
use lock_core::toolkit::Call;
use lock_core::{Error, ErrorKind, Result};

use crate::answers::{StoredKey, Window};
use crate::cluster::Cluster;
use crate::keys::Queue;
use crate::transactions::{self, BATCH};

/// The number of keys that are listed at a time when all keys have to be listed.
const PAGE: i64 = 4096;
/// The number of requests that are sent at the same time.
const AT_ONCE: usize = 8;
/// Up to this many leases are read one by one, however few keys there are.
const FEW_LEASES: usize = BATCH * AT_ONCE;

/// A search for the foreign places of a queue. It finds all places that existed when it began, and maybe some that are
/// gone since. A search that was interrupted continues where it was.
#[derive(Debug)]
pub(crate) struct Search {
    unread: Unread,
    found: Vec<StoredKey>,
}

/// The keys that the search has not read yet.
#[derive(Debug)]
enum Unread {
    /// Everything: nothing is known yet.
    All,
    /// The places that the recipe would give these leases.
    Leases(Vec<i64>),
    /// All keys from this one on.
    Keys(Vec<u8>),
}

impl Search {
    /// `seen` is what an earlier request has read of the queue.
    pub(crate) fn new(queue: &Queue, seen: Window) -> Search {
        match seen.more {
            true => Search { unread: Unread::All, found: Vec::new() },
            false => Search { unread: Unread::Leases(Vec::new()), found: of(queue, seen) },
        }
    }

    /// Runs the search to its end and returns what it found. Cancel safe: the next call continues the search.
    pub(crate) async fn run(
        &mut self,
        cluster: &Cluster,
        call: &Call,
        queue: &Queue,
    ) -> Result<Vec<StoredKey>> {
        loop {
            match &mut self.unread {
                Unread::All => self.unread = begin(cluster, call, queue).await?,
                Unread::Leases(leases) if leases.is_empty() => return Ok(std::mem::take(&mut self.found)),
                Unread::Leases(leases) => {
                    let rest = leases.len().saturating_sub(BATCH * AT_ONCE);
                    let keys: Vec<_> =
                        leases[rest..].iter().map(|lease| queue.place_by_recipe(*lease)).collect();
                    self.found.extend(read(cluster, call, &keys).await?);
                    leases.truncate(rest);
                }
                Unread::Keys(from) => {
                    let page = transactions::others(queue).with_limit(PAGE);
                    let page = Window::from(&cluster.get(call, from, page).await?);
                    let last = page.keys.last().filter(|_| page.more);
                    let next = last.map(|last| [&last.key[..], &[0]].concat());
                    self.found.extend(of(queue, page));
                    self.unread = next.map_or(Unread::Leases(Vec::new()), Unread::Keys);
                }
            }
        }
    }
}

/// Returns the foreign places of a queue, of which an earlier request has read `seen`. All places that existed before
/// the call are among them.
pub(crate) async fn places(
    cluster: &Cluster,
    call: &Call,
    queue: &Queue,
    seen: Window,
) -> Result<Vec<StoredKey>> {
    Search::new(queue, seen).run(cluster, call, queue).await
}

/// Returns those of these places that still exist.
pub(crate) async fn still_there(
    cluster: &Cluster,
    call: &Call,
    places: &[StoredKey],
) -> Result<Vec<StoredKey>> {
    let keys: Vec<Vec<u8>> = places.iter().map(|place| place.key.clone()).collect();
    let found = read(cluster, call, &keys).await?;
    let still_exists =
        |place: &&StoredKey| found.iter().any(|now| now.key == place.key && now.created == place.created);
    Ok(places.iter().filter(still_exists).cloned().collect())
}

/// Returns the place with its value if the key was written again: a revoke has put an owner into it.
pub(crate) async fn with_its_owner(cluster: &Cluster, call: &Call, place: StoredKey) -> Result<StoredKey> {
    if place.modified == place.created || !place.value.is_empty() {
        return Ok(place);
    }
    let now = Window::from(&cluster.get(call, &place.key, GetOptions::new()).await?);
    Ok(now.keys.into_iter().find(|now| now.created == place.created).unwrap_or(place))
}

/// Decides what to read: the places that the recipe would give the existing leases, or all keys if there are fewer.
async fn begin(cluster: &Cluster, call: &Call, queue: &Queue) -> Result<Unread> {
    match cluster.leases(call, &queue.ours()).await.map_err(Error::from) {
        Ok(leases) if leases.len() > FEW_LEASES => {
            let count = transactions::others(queue).with_count_only();
            let keys = cluster.get(call, queue.start(), count).await?.count();
            let are_fewer = usize::try_from(keys).is_ok_and(|keys| keys < leases.len());
            Ok(if are_fewer { Unread::Keys(queue.start().to_vec()) } else { Unread::Leases(leases) })
        }
        Ok(leases) => Ok(Unread::Leases(leases)),
        // Not every user may list leases.
        Err(e) if e.kind() == ErrorKind::Rejected => Ok(Unread::Keys(queue.start().to_vec())),
        Err(e) => Err(e),
    }
}

/// Reads these keys, several batches at once.
async fn read(cluster: &Cluster, call: &Call, keys: &[Vec<u8>]) -> Result<Vec<StoredKey>> {
    let asking = keys.chunks(BATCH).map(async |batch| {
        let answer = cluster.txn(call, transactions::read(batch)).await?;
        transactions::were_read(&answer, batch.len()).map(|(found, _)| found)
    });
    try_join_all(asking).await.map(|found| found.concat())
}

fn of(queue: &Queue, window: Window) -> Vec<StoredKey> {
    window.keys.into_iter().filter(|place| queue.has(&place.key)).collect()
}
