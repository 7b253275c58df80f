//! The collection of locks, its index, and whether what is there is ours.
//!
//! The version stands in the index's name, so that collection, index and version come to be in one step. Two indexes of
//! one kind can't be in a collection: a library of another version meets this one's.

use std::error::Error as _;
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Error, ErrorKind, Result, detached};
use mongodb::IndexModel;
use mongodb::bson::doc;
use mongodb::options::IndexOptions;

use crate::errors;
use crate::link::Place;
use crate::server::Server;

/// The version of the documents that this crate reads and writes.
pub(crate) const VERSION: u32 = 1;

const MARK: &str = "onelock schema ";

/// How the collection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its index is there.
    Ours,
    /// Nobody has made it yet.
    Missing,
}

/// Looks whether the collection is ours, and makes it if it isn't there. Without the right to make it, locks work all
/// the same: what they leave behind stays.
pub(crate) async fn prepare(server: &Server, call: &Call) -> Result<()> {
    match look(server, call).await {
        Ok(Standing::Ours) => return Ok(()),
        Ok(Standing::Missing) => {}
        Err(e) => return if is_refused(&e) { Ok(()) } else { Err(e) },
    }
    // An index may take its time, and goes on by itself: no lock waits for it. A member that is down keeps it from being
    // built, but no lock from being taken.
    match make(server, &Call::begin(call.clock(), call.left() / 2)).await {
        Err(e) if e.kind() == ErrorKind::Rejected && !is_refused(&e) => Err(e),
        _ => Ok(()),
    }
}

/// Whether the collection has this version's index. `Rejected` if it has another's.
pub(crate) async fn look(server: &Server, call: &Call) -> Result<Standing> {
    match names(server, call).await {
        // The connection broke, or the time is up: then there is none for another question.
        Err(e) if e.may_have_been_done() => standing(&names(server, call).await?),
        names => standing(&names?),
    }
}

/// The names of the collection's indexes; none if it isn't there.
async fn names(server: &Server, call: &Call) -> Result<Vec<String>> {
    let link = server.link();
    let locks = link.locks().clone();
    let names = async move {
        match locks.list_index_names().await {
            Err(e) if errors::is_not_there(&e) => Ok(Vec::new()),
            outcome => outcome,
        }
    };
    server.ask(call, &link, names).await
}

/// Makes the collection and its index.
pub(crate) async fn make(server: &Server, call: &Call) -> Result<()> {
    let link = server.link();
    let locks = link.locks().clone();
    let options = IndexOptions::builder().name(name()).expire_after(Duration::ZERO).build();
    let index = IndexModel::builder().keys(doc! { "forget": 1 }).options(options).build();
    // A link on which this is slow has not fallen silent.
    detached(call.clock(), call.left(), async move { Ok(locks.create_index(index).await) })
        .await?
        .map_err(errors::asking)
        .map(drop)
}

/// What `make` does, for administrators.
pub(crate) fn in_words(place: &Place) -> String {
    format!(
        "// made by whoever opens it first; in mongosh, in the database {}:\n\
         db.getCollection({:?}).createIndex({{ forget: 1 }}, {{ name: {:?}, expireAfterSeconds: 0 }});",
        place.database,
        place.collection,
        name()
    )
}

fn name() -> String {
    format!("{MARK}{VERSION}")
}

fn standing(indexes: &[String]) -> Result<Standing> {
    let Some(version) = indexes.iter().find_map(|name| name.strip_prefix(MARK)) else {
        return Ok(Standing::Missing);
    };
    match version.parse::<u32>() {
        Ok(VERSION) => Ok(Standing::Ours),
        Ok(newer) if newer > VERSION => Err(Error::rejected(format!(
            "the collection of locks has version {newer}, which is newer than this program's ({VERSION}); update it"
        ))),
        Ok(older) => Err(Error::rejected(format!(
            "the collection of locks has version {older}, older than this program's ({VERSION}); when no program of the \
             old version runs any more, drop the collection"
        ))),
        Err(_) => Err(Error::rejected(format!(
            "the collection of locks has an index \"{MARK}{version}\" that is none of ours; take another collection"
        ))),
    }
}

fn is_refused(error: &Error) -> bool {
    error.source().and_then(|source| source.downcast_ref()).is_some_and(errors::is_unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_who_has_to_change() {
        let said = |names: &[&str]| {
            standing(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
                .map_err(|e| e.to_string())
        };
        assert_eq!(said(&["_id_", "onelock schema 1"]), Ok(Standing::Ours));
        assert_eq!(said(&["_id_", "mine"]), Ok(Standing::Missing));
        assert_eq!(said(&[]), Ok(Standing::Missing));
        assert!(said(&["onelock schema 2"]).unwrap_err().contains("newer"));
        assert!(said(&["onelock schema 0"]).unwrap_err().contains("older"));
        assert!(said(&["onelock schema x"]).unwrap_err().contains("none of ours"));
    }
}
