//! Places of foreign clients, found among the keys of deeper names.
//!
//! A foreign place of the name `foo` is directly below `foo/`. All keys of `foo/bar` and similar names are there, too.
//! If there are few keys, all of them are read. If there are many, the server takes long to list even some of them.
//! Then the keys that etcd's own recipe would use are read one by one: those keys are lease ids.

use etcd_client::GetOptions;
use futures_util::future::try_join_all;
use lock_core::driver::Call;
use lock_core::{Error, ErrorKind, Result};

use crate::answers::{Place, Window};
use crate::cluster::Cluster;
use crate::keys::Queue;
use crate::transactions::{self, BATCH};

/// How many keys are listed at a time when all keys have to be listed.
const PAGE: i64 = 4096;
/// How many requests are sent at the same time.
const AT_ONCE: usize = 8;
/// Up to this many leases are read one by one, however few keys there are.
const FEW_LEASES: usize = BATCH * AT_ONCE;

/// A search for the foreign places of a queue. It finds all places that existed when it began, and maybe some that are
/// gone since. A search that was interrupted continues where it was.
#[derive(Debug)]
pub(crate) struct Search {
    left: Left,
    found: Vec<Place>,
}

/// What the search has not read yet.
#[derive(Debug)]
enum Left {
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
            true => Search { left: Left::All, found: Vec::new() },
            false => Search { left: Left::Leases(Vec::new()), found: of(queue, seen) },
        }
    }

    /// Runs the search to its end and returns what it found. Cancel safe: the next call continues the search.
    pub(crate) async fn run(&mut self, cluster: &Cluster, call: &Call, queue: &Queue) -> Result<Vec<Place>> {
        loop {
            match &mut self.left {
                Left::All => self.left = begin(cluster, call, queue).await?,
                Left::Leases(leases) if leases.is_empty() => return Ok(std::mem::take(&mut self.found)),
                Left::Leases(leases) => {
                    let rest = leases.len().saturating_sub(BATCH * AT_ONCE);
                    let keys: Vec<_> =
                        leases[rest..].iter().map(|lease| queue.place_by_recipe(*lease)).collect();
                    self.found.extend(read(cluster, call, &keys).await?);
                    leases.truncate(rest);
                }
                Left::Keys(from) => {
                    let page = transactions::others(queue).with_limit(PAGE);
                    let page = Window::from(&cluster.get(call, from, page).await?);
                    let last = page.places.last().filter(|_| page.more);
                    let next = last.map(|last| [&last.key[..], &[0]].concat());
                    self.found.extend(of(queue, page));
                    self.left = next.map_or(Left::Leases(Vec::new()), Left::Keys);
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
) -> Result<Vec<Place>> {
    Search::new(queue, seen).run(cluster, call, queue).await
}

/// Returns those of these places that still exist.
pub(crate) async fn still_there(cluster: &Cluster, call: &Call, places: &[Place]) -> Result<Vec<Place>> {
    let keys: Vec<Vec<u8>> = places.iter().map(|place| place.key.clone()).collect();
    let found = read(cluster, call, &keys).await?;
    let stands =
        |place: &&Place| found.iter().any(|now| now.key == place.key && now.created == place.created);
    Ok(places.iter().filter(stands).cloned().collect())
}

/// Returns the place with its value if the key was written again: a revoke has put an owner into it.
pub(crate) async fn with_its_owner(cluster: &Cluster, call: &Call, place: Place) -> Result<Place> {
    if place.modified == place.created || !place.value.is_empty() {
        return Ok(place);
    }
    let now = Window::from(&cluster.get(call, &place.key, GetOptions::new()).await?);
    Ok(now.places.into_iter().find(|now| now.created == place.created).unwrap_or(place))
}

/// Decides what to read: the places that the recipe would give the existing leases, or all keys if there are fewer.
async fn begin(cluster: &Cluster, call: &Call, queue: &Queue) -> Result<Left> {
    match cluster.leases(call, &queue.ours()).await.map_err(Error::from) {
        Ok(leases) if leases.len() > FEW_LEASES => {
            let count = transactions::others(queue).with_count_only();
            let keys = cluster.get(call, queue.start(), count).await?.count();
            let are_fewer = usize::try_from(keys).is_ok_and(|keys| keys < leases.len());
            Ok(if are_fewer { Left::Keys(queue.start().to_vec()) } else { Left::Leases(leases) })
        }
        Ok(leases) => Ok(Left::Leases(leases)),
        // Not every user may list leases.
        Err(e) if e.kind() == ErrorKind::Rejected => Ok(Left::Keys(queue.start().to_vec())),
        Err(e) => Err(e),
    }
}

/// Reads these keys, several batches at once.
async fn read(cluster: &Cluster, call: &Call, keys: &[Vec<u8>]) -> Result<Vec<Place>> {
    let asking = keys.chunks(BATCH).map(async |batch| {
        let answer = cluster.txn(call, transactions::read(batch)).await?;
        transactions::were_read(&answer, batch.len()).map(|(found, _)| found)
    });
    try_join_all(asking).await.map(|found| found.concat())
}

fn of(queue: &Queue, window: Window) -> Vec<Place> {
    window.places.into_iter().filter(|place| queue.has(&place.key)).collect()
}
