//! What the server is asked: each statement is the pipeline of one `findAndModify`, one atomic step.
//!
//! `$$NOW` is the server's clock, read once as the statement begins. So a statement that waits inside the server, for
//! a lock or for disk, ends what it grants as early as if it had not waited. It counts in milliseconds.
//!
//! A stage sees the document as the one before left it, a new one with nothing but its `_id`. A document that comes out
//! as it went in is not written.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc};

/// A token is forgotten this long after the time that it stands for.
pub(crate) const KEPT: i64 = 24 * 3600 * 1000;

/// How long it is believed that somebody waits, in milliseconds: a mark is not taken back, since others may wait too.
const MARK: i64 = 30_000;
/// A mark that has less left is left anew.
pub(crate) const FRESH: i64 = MARK / 2;

/// When a lock ended that nobody holds: long ago.
pub(crate) const NEVER: DateTime = DateTime::from_millis(0);

/// An attempt's pipeline: takes the lock if it is free, extends it if it is `me` who has it, else changes nothing. After
/// `deadline` it changes nothing in any case.
pub(crate) fn attempt(me: &Bson, label: &str, ttl: i64, deadline: DateTime) -> Vec<Document> {
    let is_late = doc! { "$gt": ["$$NOW", deadline] };
    let taken = doc! {
        "_id": "$_id",
        "owner": me,
        "label": { "$literal": label },
        "token": { "$max": [{ "$add": ["$token", 1_i64] }, { "$multiply": [{ "$toLong": "$$NOW" }, 1000_i64] }] },
        "expires": { "$add": ["$$NOW", ttl] },
        "waiting": "$waiting",
    };
    let extended = doc! { "$mergeObjects": ["$$ROOT", { "expires": until(ttl) }] };
    let unless_free = doc! { "$cond": [{ "$eq": ["$owner", me] }, extended, "$$ROOT"] };
    // A field that isn't there is less than any date.
    let in_time = doc! { "$cond": [{ "$lte": ["$expires", "$$NOW"] }, taken, unless_free] };
    vec![doc! { "$replaceWith": { "$cond": [is_late, "$$ROOT", in_time] } }, forget()]
}

/// A renewal's pipeline: `me` keeps what it holds for `ttl` more, never for less than it had.
pub(crate) fn renew(me: &Bson, ttl: i64) -> Vec<Document> {
    let held = doc! { "$and": [{ "$eq": ["$owner", me] }, is_live()] };
    vec![doc! { "$set": { "expires": { "$cond": [held, until(ttl), "$expires"] } } }, forget()]
}

/// A release's pipeline, for a document of the owner's. The token stays.
pub(crate) fn release() -> Vec<Document> {
    vec![doc! { "$set": { "expires": NEVER } }, doc! { "$unset": ["owner", "label", "revoked"] }, forget()]
}

/// A mark's pipeline: somebody waits, from now on for [`MARK`]. One that has half of its time left is not written.
pub(crate) fn mark() -> Vec<Document> {
    let is_old = doc! { "$lt": ["$waiting", { "$add": ["$$NOW", FRESH] }] };
    vec![doc! { "$set": { "waiting": { "$cond": [is_old, { "$add": ["$$NOW", MARK] }, "$waiting"] } } }]
}

/// What a release is about: what is this owner's, or what a revoke has left in its place.
pub(crate) fn given_up(key: &Bson, me: &Bson) -> Document {
    let left = doc! { "revoked": me, "expires": { "$gt": NEVER } };
    doc! { "_id": key, "$or": [{ "owner": me }, left] }
}

/// A revoke's pipeline, for a document of `holder`'s: it can't renew any more, and the lock is free when it would have
/// been. What is over already is left alone.
pub(crate) fn revoke(holder: &Bson, by: &Bson, label: &str) -> Vec<Document> {
    let revoked = doc! { "owner": by, "label": { "$literal": label }, "revoked": first(holder) };
    let outcome = doc! { "$cond": [is_live(), { "$mergeObjects": ["$$ROOT", revoked] }, "$$ROOT"] };
    vec![doc! { "$replaceWith": outcome }]
}

/// The same, and the lock is free at once. The holder is still told why it lost it.
pub(crate) fn revoke_now(holder: &Bson) -> Vec<Document> {
    let taken = doc! { "$set": { "expires": NEVER, "revoked": first(holder) } };
    vec![taken, doc! { "$unset": ["owner", "label"] }, forget()]
}

/// From whom a lock was revoked, however often it was.
fn first(holder: &Bson) -> Document {
    doc! { "$ifNull": ["$revoked", holder] }
}

/// What is answered of a document, and the server's time with it.
pub(crate) fn shown() -> Document {
    doc! { "_id": 0, "owner": 1, "label": 1, "token": 1, "expires": 1, "revoked": 1, "waiting": 1, "now": "$$NOW" }
}

/// Bytes as they are stored: names, owners.
pub(crate) fn bytes(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

/// When the document may go: a day after the token's time, and not while the lock is held. A function of what else is
/// in it, so that a document that stays as it was stays so in this as well. One that a refused attempt left behind has
/// no token, and goes at once.
fn forget() -> Document {
    let token = doc! { "$toDate": { "$divide": ["$token", 1000] } };
    doc! { "$set": { "forget": { "$max": [{ "$add": [token, KEPT] }, "$expires", NEVER] } } }
}

fn is_live() -> Document {
    doc! { "$gt": ["$expires", "$$NOW"] }
}

/// The end of a lease from now on, and no earlier than it was.
fn until(ttl: i64) -> Document {
    doc! { "$max": ["$expires", { "$add": ["$$NOW", ttl] }] }
}
