//! The statements that are sent to the server: pipelines of a `findAndModify`, or of an update of many documents, with
//! their filters. Each is one atomic step on each document.
//!
//! `$$NOW` is the server's clock in milliseconds, read once as the statement begins. If a statement waits inside the
//! server, for a lock or for the disk, the lease that it grants ends as early as if it had not waited.
//!
//! Each stage sees the document as the previous stage left it. The first stage sees a new document with its `_id` only.
//! The server does not write a document that the pipeline leaves unchanged.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc};

/// The time for which a token is kept after the time that it stands for, in milliseconds.
pub(crate) const KEPT: i64 = 24 * 3600 * 1000;

/// The time for which a waiter's mark counts, in milliseconds. A waiter does not remove its mark, because others may
/// wait too.
const MARK: i64 = 30_000;
/// A mark that has less time left than this is written again, in milliseconds.
pub(crate) const FRESH: i64 = MARK / 2;

/// The field of a free lock that tells how many releases its last owner had heard while it waited.
pub(crate) const HEARD: &str = "heard";

/// The `expires` of a lock that was released: the year 1970.
pub(crate) const NEVER: DateTime = DateTime::from_millis(0);

/// Returns an attempt's pipeline. It takes the lock if it is free, extends the lease if `me` holds it, and changes
/// nothing otherwise. After `deadline` it changes nothing in any case.
pub(crate) fn attempt(me: &Bson, label: &str, ttl: i64, deadline: DateTime) -> Vec<Document> {
    let is_late = doc! { "$gt": ["$$NOW", deadline] };
    let extended = doc! { "$mergeObjects": ["$$ROOT", { "expires": until(ttl) }] };
    let unless_free = doc! { "$cond": [{ "$eq": ["$owner", me] }, extended, "$$ROOT"] };
    // A missing field compares as less than any date.
    let in_time = doc! { "$cond": [{ "$lte": ["$expires", "$$NOW"] }, taken(me, label, ttl), unless_free] };
    vec![doc! { "$replaceWith": { "$cond": [is_late, "$$ROOT", in_time] } }, forget()]
}

/// Returns a takeover's pipeline, for a document of which the predecessor is the owner. It puts `me` in the place of the
/// predecessor, if that has the lock and the `deadline` is not over. The waiters' mark stays.
pub(crate) fn takeover(me: &Bson, label: &str, ttl: i64, deadline: DateTime) -> Vec<Document> {
    let succeeds = doc! { "$and": [is_live(), { "$lte": ["$$NOW", deadline] }] };
    vec![doc! { "$replaceWith": { "$cond": [succeeds, taken(me, label, ttl), "$$ROOT"] } }, forget()]
}

/// Returns the document of a lock that `me` takes now, with a token of its own and a whole lease.
fn taken(me: &Bson, label: &str, ttl: i64) -> Document {
    doc! {
        "_id": "$_id",
        "owner": me,
        "label": { "$literal": label },
        "token": { "$max": [{ "$add": ["$token", 1_i64] }, { "$multiply": [{ "$toLong": "$$NOW" }, 1000_i64] }] },
        "expires": { "$add": ["$$NOW", ttl] },
        "waiting": "$waiting",
    }
}

/// Returns a renewal's pipeline. It keeps the lock for `ttl` milliseconds more if `me` holds it, and never shortens the
/// lease.
pub(crate) fn renew(me: &Bson, ttl: i64) -> Vec<Document> {
    let held = doc! { "$and": [{ "$eq": ["$owner", me] }, is_live()] };
    vec![doc! { "$set": { "expires": { "$cond": [held, until(ttl), "$expires"] } } }, forget()]
}

/// Returns the filter of a renewal of many locks. It selects the documents of `keys` that one of `owners` holds. An owner is
/// of one claim, and so of one key.
pub(crate) fn held_by(keys: Vec<Bson>, owners: Vec<Bson>) -> Document {
    doc! { "_id": { "$in": keys }, "owner": { "$in": owners }, "$expr": is_live() }
}

/// Returns the pipeline of a renewal of documents that [`held_by`] selects. It never shortens a lease.
pub(crate) fn renew_held(ttl: i64) -> Vec<Document> {
    vec![doc! { "$set": { "expires": until(ttl) } }, forget()]
}

/// Returns a release's pipeline, for a document that [`release_filter`] selects. The token stays. The waiters are told how
/// many releases the owner had `heard` while it waited, if it had to.
pub(crate) fn release(heard: u32) -> Vec<Document> {
    let mut released = doc! { "expires": NEVER };
    if heard > 0 {
        released.insert(HEARD, i64::from(heard));
    }
    vec![doc! { "$set": released }, doc! { "$unset": ["owner", "label", "revoked"] }, forget()]
}

/// Returns the pipeline that writes a waiter's mark, which counts for [`MARK`] from now on. A mark that has half of its
/// time left is not written again.
pub(crate) fn mark() -> Vec<Document> {
    let is_old = doc! { "$lt": ["$waiting", { "$add": ["$$NOW", FRESH] }] };
    vec![doc! { "$set": { "waiting": { "$cond": [is_old, { "$add": ["$$NOW", MARK] }, "$waiting"] } } }]
}

/// Returns a release's filter. It selects the document if this owner holds the lock, or if the lock was revoked from
/// this owner and has not been freed since.
pub(crate) fn release_filter(key: &Bson, me: &Bson) -> Document {
    let left = doc! { "revoked": me, "expires": { "$gt": NEVER } };
    doc! { "_id": key, "$or": [{ "owner": me }, left] }
}

/// Returns a revoke's pipeline, for a document of which `holder` holds the lock. The holder can't renew any more, and
/// the lock becomes free when its lease ends. A lease that has ended already is left unchanged.
pub(crate) fn revoke(holder: &Bson, by: &Bson, label: &str) -> Vec<Document> {
    let revoked = doc! { "owner": by, "label": { "$literal": label }, "revoked": first(holder) };
    let outcome = doc! { "$cond": [is_live(), { "$mergeObjects": ["$$ROOT", revoked] }, "$$ROOT"] };
    vec![doc! { "$replaceWith": outcome }]
}

/// Returns the pipeline of a revoke that frees the lock at once. The holder is still told that it was revoked. A lease
/// that has ended already is left unchanged.
pub(crate) fn revoke_now(holder: &Bson) -> Vec<Document> {
    let freed = doc! {
        "_id": "$_id",
        "token": "$token",
        "expires": NEVER,
        "revoked": first(holder),
        "waiting": "$waiting",
    };
    vec![doc! { "$replaceWith": { "$cond": [is_live(), freed, "$$ROOT"] } }, forget()]
}

/// Returns the owner that a lock was first revoked from, however often it was revoked.
fn first(holder: &Bson) -> Document {
    doc! { "$ifNull": ["$revoked", holder] }
}

/// Returns the projection of every answer: the document's fields, and the server's time.
pub(crate) fn projection() -> Document {
    doc! { "_id": 0, "owner": 1, "label": 1, "token": 1, "expires": 1, "revoked": 1, "waiting": 1, "now": "$$NOW" }
}

/// Returns bytes (a name, an owner) as they are stored.
pub(crate) fn bytes(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

/// Sets when the server may delete the document: a day after the token's time, and not while the lock is held. The time
/// depends on the document's other fields only, so that a document that is otherwise unchanged stays unchanged. A
/// document that a refused attempt has left has no token, and may be deleted at once.
fn forget() -> Document {
    let token = doc! { "$toDate": { "$divide": ["$token", 1000] } };
    doc! { "$set": { "forget": { "$max": [{ "$add": [token, KEPT] }, "$expires", NEVER] } } }
}

fn is_live() -> Document {
    doc! { "$gt": ["$expires", "$$NOW"] }
}

/// Returns the end of a lease of `ttl` milliseconds from now on, which is never earlier than the present end.
fn until(ttl: i64) -> Document {
    doc! { "$max": ["$expires", { "$add": ["$$NOW", ttl] }] }
}
