//! The transactions: what one request asks the server to do, and what the answer means.

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, TxnResponse,
};
use lock_core::Result;

use crate::answers::{Answers, StoredKey, Window};
use crate::keys::{Own, Queue};

/// The number of places of our clients that a transaction reads: the own one, the one before it, and enough to see
/// whether that one is the first.
const WINDOW: i64 = 4;
/// The number of other keys (of foreign clients and of deeper names) that a transaction reads. If there are more, a
/// separate search reads them.
const PASSING: i64 = 32;
/// The number of keys that one request proves, or moves. A server accepts 128 operations at most.
pub(crate) const BATCH: usize = 64;

/// The metadata of a key of ours: its revisions and its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyMetadata {
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) lease: i64,
}

impl From<&StoredKey> for KeyMetadata {
    fn from(place: &StoredKey) -> KeyMetadata {
        KeyMetadata { created: place.created, modified: place.modified, lease: place.lease }
    }
}

// ---- taking a place -------------------------------------------------------------------------------------------------

/// The outcome of an attempt to enter the queue.
#[derive(Debug)]
pub(crate) enum Entered {
    /// The place was taken. `around` are the newest places of our clients; `others` are other keys that begin like the
    /// queue's places.
    Taken { metadata: KeyMetadata, around: Window, others: Window },
    /// The place was not taken.
    Refused(Found),
}

/// The keys of a queue that the claim did not enter.
#[derive(Debug)]
pub(crate) struct Found {
    /// The own key, if it exists.
    pub(crate) own: Option<StoredKey>,
    /// The tombstone exists: this owner was released before the attempt arrived.
    pub(crate) has_tombstone: bool,
    /// The oldest place of our clients. Read only by an attempt that does not wait.
    pub(crate) first: Option<StoredKey>,
    /// Other keys that begin like the queue's places.
    pub(crate) others: Window,
}

/// Enters the queue at its end, under this lease.
pub(crate) fn enter(own: &Own, lease: i64) -> Txn {
    let (absent, put) = taking(own, lease);
    let taken = [
        put,
        TxnOp::get(own.queue.ours(), Some(newest())),
        TxnOp::get(own.queue.start(), Some(others(&own.queue))),
    ];
    Txn::new().when(absent).and_then(taken).or_else(own_and_tombstone(own, lease))
}

/// Enters the queue if none of our clients is in it.
pub(crate) fn enter_if_free(own: &Own, lease: i64, known: Others) -> Txn {
    let (mut absent, put) = taking(own, lease);
    absent.push(Compare::create_revision(own.queue.ours(), CompareOp::Equal, 0).with_prefix());
    let mut taken = vec![put, TxnOp::get(own.queue.ours(), Some(newest()))];
    if known == Others::Few {
        taken.push(TxnOp::get(own.queue.start(), Some(others(&own.queue))));
    }
    Txn::new().when(absent).and_then(taken).or_else(who_is_there(own, lease))
}

/// The number of other keys that begin like a queue's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Few enough that a transaction can read them all.
    Few,
    /// More: the more there are, the longer a read of some of them takes.
    Many,
}

fn taking(own: &Own, lease: i64) -> (Vec<Compare>, TxnOp) {
    let absent = |key: Vec<u8>| Compare::create_revision(key, CompareOp::Equal, 0);
    let put = TxnOp::put(own.key.clone(), own.value.clone(), Some(PutOptions::new().with_lease(lease)));
    (vec![absent(own.key.clone()), absent(own.tombstone(lease))], put)
}

/// Reads the answer to [`enter`] or to [`enter_if_free`].
pub(crate) fn entered(answer: &TxnResponse, lease: i64) -> Result<Entered> {
    let mut answers = Answers::from(answer);
    let revision = answers.revision;
    if !answers.succeeded {
        return found(answers).map(Entered::Refused);
    }
    answers.put()?;
    let metadata = KeyMetadata { created: revision, modified: revision, lease };
    let (around, others) = (answers.window()?, answers.window().unwrap_or(Window::UNKNOWN));
    Ok(Entered::Taken { metadata, around, others })
}

// ---- looking --------------------------------------------------------------------------------------------------------

/// Looks who has places, for a claim that does not wait.
pub(crate) fn look_if_free(own: &Own, lease: i64) -> Txn {
    Txn::new().and_then(who_is_there(own, lease))
}

pub(crate) fn looked_if_free(answer: &TxnResponse) -> Result<Found> {
    found(Answers::from(answer))
}

fn who_is_there(own: &Own, lease: i64) -> Vec<TxnOp> {
    let mut found = own_and_tombstone(own, lease);
    found.push(TxnOp::get(own.queue.ours(), Some(oldest().with_limit(1))));
    found.push(TxnOp::get(own.queue.start(), Some(others(&own.queue))));
    found
}

fn own_and_tombstone(own: &Own, lease: i64) -> Vec<TxnOp> {
    vec![TxnOp::get(own.key.clone(), None), TxnOp::get(own.tombstone(lease), Some(keys_only()))]
}

fn found(mut answers: Answers) -> Result<Found> {
    let (own, has_tombstone) = (answers.key()?, answers.key()?.is_some());
    // An attempt that waits has not read the rest.
    let first = answers.key().unwrap_or_default();
    Ok(Found { own, has_tombstone, first, others: answers.window().unwrap_or(Window::UNKNOWN) })
}

/// Reads the own key, and the places of our clients before it, the newest first.
pub(crate) fn look(own: &Own, created: i64) -> Txn {
    let before = newest().with_max_create_revision(created - 1);
    Txn::new().and_then([TxnOp::get(own.key.clone(), None), TxnOp::get(own.queue.ours(), Some(before))])
}

pub(crate) fn looked(answer: &TxnResponse) -> Result<(Option<StoredKey>, Window)> {
    let mut answers = Answers::from(answer);
    Ok((answers.key()?, answers.window()?))
}

/// The newest places of our clients, with their values: the place before our own may be the holder's.
pub(crate) fn newest() -> GetOptions {
    GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(WINDOW)
}

/// The oldest places of our clients.
pub(crate) fn oldest() -> GetOptions {
    GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(WINDOW)
}

/// Some of the keys before our clients' places: foreign places, and keys of other names. Without their values, which
/// may be too large for one answer.
pub(crate) fn others(queue: &Queue) -> GetOptions {
    keys_only().with_range(queue.ours()).with_limit(PASSING)
}

pub(crate) fn keys_only() -> GetOptions {
    GetOptions::new().with_keys_only()
}

// ---- giving up ------------------------------------------------------------------------------------------------------

/// Deletes the key if this owner created it, even if a revoke has put another owner into it since.
pub(crate) fn give_back(own: &Own, created: i64) -> Txn {
    let delete = TxnOp::delete(own.key.clone(), None);
    let is_the_one = Compare::create_revision(own.key.clone(), CompareOp::Equal, created);
    Txn::new().when([is_the_one]).and_then([delete, rest(&own.queue)])
}

/// Deletes the key if its value is this owner's.
pub(crate) fn release(own: &Own) -> Txn {
    let delete = TxnOp::delete(own.key.clone(), None);
    Txn::new().when([is_owners(own)]).and_then([delete, rest(&own.queue)])
}

/// Deletes the key if its value is this owner's. Also puts a tombstone, so that no later attempt of this owner under
/// this lease takes effect: such an attempt needs the lease alive, and the tombstone lives as long as the lease.
pub(crate) fn release_with_tombstone(own: &Own, lease: i64) -> Txn {
    let tombstone = || TxnOp::put(own.tombstone(lease), "", Some(PutOptions::new().with_lease(lease)));
    let delete = TxnOp::delete(own.key.clone(), None);
    Txn::new().when([is_owners(own)]).and_then([delete, rest(&own.queue), tombstone()]).or_else([tombstone()])
}

fn is_owners(own: &Own) -> Compare {
    Compare::value(own.key.clone(), CompareOp::Equal, own.value.clone())
}

/// Reads some of the places of our clients that are left.
fn rest(queue: &Queue) -> TxnOp {
    TxnOp::get(queue.ours(), Some(keys_only().with_prefix().with_limit(WINDOW)))
}

/// Returns the places that are left; `None` if the key was not this owner's.
pub(crate) fn released(answer: &TxnResponse) -> Result<Option<Window>> {
    let mut answers = Answers::from(answer);
    if !answers.succeeded || answers.deleted()? == 0 {
        return Ok(None);
    }
    answers.window().map(Some)
}

// ---- sessions -------------------------------------------------------------------------------------------------------

/// Reads these keys, all at one revision.
pub(crate) fn read(keys: &[Vec<u8>]) -> Txn {
    let gets: Vec<TxnOp> = keys.iter().map(|key| TxnOp::get(key.clone(), Some(keys_only()))).collect();
    Txn::new().and_then(gets)
}

/// Returns those of the keys that exist, and the raft term of the answer.
pub(crate) fn were_read(answer: &TxnResponse, keys: usize) -> Result<(Vec<StoredKey>, u64)> {
    let mut answers = Answers::from(answer);
    let mut found = Vec::with_capacity(keys);
    for _ in 0..keys {
        found.extend(answers.key()?);
    }
    Ok((found, answers.term))
}

/// Moves keys to another lease. Each key is moved only if it is unchanged since it was last seen, so that a revoke or
/// an end is not undone. A moved key keeps its create revision, and so its place and its token.
pub(crate) fn move_to(lease: i64, keys: &[(Vec<u8>, KeyMetadata)]) -> Txn {
    let moves: Vec<TxnOp> = keys
        .iter()
        .map(|(key, metadata)| {
            let onto = PutOptions::new().with_lease(lease).with_ignore_value();
            let one = Txn::new()
                .when([
                    Compare::create_revision(key.clone(), CompareOp::Equal, metadata.created),
                    Compare::mod_revision(key.clone(), CompareOp::Equal, metadata.modified),
                ])
                .and_then([TxnOp::put(key.clone(), "", Some(onto))])
                .or_else([TxnOp::get(key.clone(), Some(keys_only()))]);
            TxnOp::txn(one)
        })
        .collect();
    Txn::new().and_then(moves)
}

/// Returns how each of the keys stands now; `None` for a key that is gone.
pub(crate) fn moved(
    answer: &TxnResponse,
    lease: i64,
    keys: &[(Vec<u8>, KeyMetadata)],
) -> Result<Vec<Option<KeyMetadata>>> {
    let mut answers = Answers::from(answer);
    let revision = answers.revision;
    let each = keys.iter().map(|(_, before)| {
        let mut one = answers.inner()?;
        Ok(match one.succeeded {
            true => Some(KeyMetadata { modified: revision, lease, ..*before }),
            false => one.key()?.as_ref().map(KeyMetadata::from),
        })
    });
    each.collect()
}

// ---- taking a lock from its holder ----------------------------------------------------------------------------------

/// Gives the holder's key another owner and another lease, if it is unchanged since it was seen.
pub(crate) fn replace(holder: &StoredKey, value: Vec<u8>, lease: i64, marker: Option<Vec<u8>>) -> Txn {
    let put = TxnOp::put(holder.key.clone(), value, Some(PutOptions::new().with_lease(lease)));
    taking_away(holder, put, marker)
}

/// Deletes the holder's key, if it is unchanged since it was seen.
pub(crate) fn remove(holder: &StoredKey, marker: Option<Vec<u8>>) -> Txn {
    taking_away(holder, TxnOp::delete(holder.key.clone(), Some(DeleteOptions::new())), marker)
}

/// Takes the key away. If the holder is one of ours, a marker key tells it so, for as long as the holder's lease lives.
fn taking_away(holder: &StoredKey, away: TxnOp, marker: Option<Vec<u8>>) -> Txn {
    let mut done = vec![away];
    done.extend(marker.map(|key| TxnOp::put(key, "", Some(PutOptions::new().with_lease(holder.lease)))));
    Txn::new().when(is_as_seen(holder)).and_then(done)
}

fn is_as_seen(place: &StoredKey) -> Vec<Compare> {
    vec![
        Compare::create_revision(place.key.clone(), CompareOp::Equal, place.created),
        Compare::mod_revision(place.key.clone(), CompareOp::Equal, place.modified),
    ]
}
