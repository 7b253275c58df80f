//! What the server is asked: each statement is the pipeline of one `findAndModify`, one atomic step.
//!
//! `$$NOW` is the server's clock, read once as the statement begins. So a statement that waits inside the server, for
//! a lock or for disk, ends what it grants as early as if it had not waited. It counts in milliseconds.
//!
//! A stage sees the document as it was before it. `$cond` with a branch that names a field as it is leaves that field
//! alone; a document that comes out as it went in is not written.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc};

/// A token is forgotten this long after the time that it stands for.
pub(crate) const KEPT: i64 = 24 * 3600 * 1000;

/// When a lock ended that nobody holds: long ago.
pub(crate) const NEVER: DateTime = DateTime::from_millis(0);

/// An attempt's pipeline: takes the lock if it is free, extends it if it is `me` who has it, else changes nothing. After
/// `deadline` it changes nothing in any case.
pub(crate) fn attempt(me: &Bson, label: &str, ttl: i64, deadline: DateTime) -> Vec<Document> {
    let in_time = doc! { "$lte": ["$$NOW", deadline] };
    let free = doc! { "$lte": [{ "$ifNull": ["$expires", NEVER] }, "$$NOW"] };
    let take = doc! { "$and": [&in_time, &free] };
    let again = doc! { "$and": [in_time, { "$not": free }, { "$eq": ["$owner", me] }] };
    let token = doc! { "$max": [
        { "$add": [{ "$ifNull": ["$token", 0_i64] }, 1_i64] },
        { "$multiply": [{ "$toLong": "$$NOW" }, 1000_i64] },
    ] };
    let until = doc! { "$add": ["$$NOW", ttl] };
    let set = doc! {
        "owner": if_else(&take, me.clone(), "$owner"),
        "label": if_else(&take, doc! { "$literal": label }, "$label"),
        "token": if_else(&take, token, "$token"),
        "revoked": if_else(&take, "$$REMOVE", "$revoked"),
        "expires": if_else(
            &take,
            until.clone(),
            if_else(&again, doc! { "$max": ["$expires", until] }, "$expires"),
        ),
    };
    vec![doc! { "$set": set }, forget()]
}

/// A renewal's pipeline: `me` keeps what it holds for `ttl` more, never for less than it had.
pub(crate) fn renew(me: &Bson, ttl: i64) -> Vec<Document> {
    let held = doc! { "$and": [{ "$eq": ["$owner", me] }, is_live()] };
    let until = doc! { "$max": ["$expires", { "$add": ["$$NOW", ttl] }] };
    vec![doc! { "$set": { "expires": if_else(&held, until, "$expires") } }, forget()]
}

/// A release's pipeline, for a document of the owner's. The token stays.
pub(crate) fn release() -> Vec<Document> {
    vec![doc! { "$set": { "expires": NEVER } }, doc! { "$unset": ["owner", "label", "revoked"] }, forget()]
}

/// A revoke's pipeline, for a document of `holder`'s: it can't renew any more, and the lock is free when it would have
/// been.
pub(crate) fn revoke(holder: &Bson, by: &Bson, label: &str) -> Vec<Document> {
    let live = is_live();
    vec![doc! { "$set": {
        "owner": if_else(&live, by.clone(), "$owner"),
        "label": if_else(&live, doc! { "$literal": label }, "$label"),
        "revoked": if_else(&live, holder.clone(), "$revoked"),
    } }]
}

/// What is answered of a document, and the server's time with it.
pub(crate) fn shown() -> Document {
    doc! { "_id": 0, "owner": 1, "label": 1, "token": 1, "expires": 1, "revoked": 1, "now": "$$NOW" }
}

/// Bytes as they are stored: names, owners.
pub(crate) fn bytes(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

/// When the document may go: a day after the token's time, and not while the lock is held. A function of what else is
/// in it, so that a document that stays as it was stays so in this as well. One that a refused attempt left behind has
/// no token, and goes at once.
fn forget() -> Document {
    let token = doc! { "$toDate": { "$divide": [{ "$ifNull": ["$token", 0_i64] }, 1000] } };
    doc! { "$set": { "forget": { "$max": [{ "$add": [token, KEPT] }, "$expires"] } } }
}

fn is_live() -> Document {
    doc! { "$gt": ["$expires", "$$NOW"] }
}

fn if_else(condition: &Document, then: impl Into<Bson>, otherwise: impl Into<Bson>) -> Document {
    doc! { "$cond": [condition, then.into(), otherwise.into()] }
}
