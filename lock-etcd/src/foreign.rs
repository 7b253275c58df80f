//! Places of foreign clients, among the keys of deeper names.
//!
//! A foreign place of the name `foo` lies directly below `foo/`, and all keys of `foo/bar` and the like lie there, too.
//! While they are few, all of them are looked at. Of many, the server takes long to list even some: then the places that
//! etcd's own recipe would have there are asked for one by one, whose keys are the ids of leases.

use etcd_client::GetOptions;
use futures_util::future::try_join_all;
use lock_core::driver::Call;
use lock_core::{Error, ErrorKind, Result};

use crate::answers::{Place, Window};
use crate::cluster::Cluster;
use crate::keys::Queue;
use crate::transactions::{self, BATCH};

/// So many keys are listed at a time, where all of them have to be.
const PAGE: i64 = 4096;
/// So many requests are on their way at a time.
const AT_ONCE: usize = 8;
/// So many leases are asked for one by one, however few keys there may be.
const FEW_LEASES: usize = BATCH * AT_ONCE;

/// A search for the foreign places of a queue. All those that were there when it began are found, and some that have gone
/// since. One that was cut short goes on where it was.
#[derive(Debug)]
pub(crate) struct Search {
    left: Left,
    found: Vec<Place>,
}

/// What has not been looked at yet.
#[derive(Debug)]
enum Left {
    /// Everything, and nothing is known of it.
    All,
    /// The places that the recipe has for these leases.
    Leases(Vec<i64>),
    /// All keys from this one on.
    Keys(Vec<u8>),
}

impl Search {
    /// `seen` is what a look in passing has shown.
    pub(crate) fn new(queue: &Queue, seen: Window) -> Search {
        match seen.more {
            true => Search { left: Left::All, found: Vec::new() },
            false => Search { left: Left::Leases(Vec::new()), found: of(queue, seen) },
        }
    }

    /// What there is, once nothing is left to be looked at. Cancel safe.
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

/// The foreign places of a queue, of which `seen` is what a look in passing has shown. All those that were there before the
/// call are among them.
pub(crate) async fn places(
    cluster: &Cluster,
    call: &Call,
    queue: &Queue,
    seen: Window,
) -> Result<Vec<Place>> {
    Search::new(queue, seen).run(cluster, call, queue).await
}

/// What is still there of these places.
pub(crate) async fn still_there(cluster: &Cluster, call: &Call, places: &[Place]) -> Result<Vec<Place>> {
    let keys: Vec<Vec<u8>> = places.iter().map(|place| place.key.clone()).collect();
    let found = read(cluster, call, &keys).await?;
    let stands =
        |place: &&Place| found.iter().any(|now| now.key == place.key && now.created == place.created);
    Ok(places.iter().filter(stands).cloned().collect())
}

/// The place with what it holds, if that was written again: a revoke has put an owner there.
pub(crate) async fn with_its_owner(cluster: &Cluster, call: &Call, place: Place) -> Result<Place> {
    if place.modified == place.created || !place.value.is_empty() {
        return Ok(place);
    }
    let now = Window::from(&cluster.get(call, &place.key, GetOptions::new()).await?);
    Ok(now.places.into_iter().find(|now| now.created == place.created).unwrap_or(place))
}

/// Where to look: at the places that leases have by the recipe, or at all keys, if these are fewer.
async fn begin(cluster: &Cluster, call: &Call, queue: &Queue) -> Result<Left> {
    match cluster.leases(call, &queue.ours()).await.map_err(Error::from) {
        Ok(leases) if leases.len() > FEW_LEASES => {
            let count = transactions::others(queue).with_count_only();
            let keys = cluster.get(call, queue.start(), count).await?.count();
            let are_fewer = usize::try_from(keys).is_ok_and(|keys| keys < leases.len());
            Ok(if are_fewer { Left::Keys(queue.start().to_vec()) } else { Left::Leases(leases) })
        }
        Ok(leases) => Ok(Left::Leases(leases)),
        // Leases are not everybody's to list.
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
