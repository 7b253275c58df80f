//! Creates the collection of locks and its index, and checks that an existing collection has this version's index.
//!
//! The version is part of the index's name, so that collection, index and version are created in one step. A collection
//! can't have two indexes on the same field, so a library of another version finds this version's index.

use std::error::Error as _;
use std::time::Duration;

use lock_core::toolkit::{Call, detached};
use lock_core::{Error, ErrorKind, Result};
use mongodb::IndexModel;
use mongodb::bson::doc;
use mongodb::options::IndexOptions;

use crate::errors;
use crate::link::Namespace;
use crate::server::Server;

/// The version of the documents that this crate reads and writes.
pub(crate) const VERSION: u32 = 1;

const MARK: &str = "onelock schema ";

/// The state of the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexState {
    /// The collection has this version's index.
    Present,
    /// The collection has no index of this library yet.
    Missing,
}

/// Checks that the collection is of this version, and creates it if it is missing. Without the right to create it,
/// locks still work, but the documents of free locks are never deleted.
pub(crate) async fn prepare(server: &Server, call: &Call) -> Result<()> {
    match look(server, call).await {
        Ok(IndexState::Present) => return Ok(()),
        Ok(IndexState::Missing) => {}
        Err(e) => return if is_refused(&e) { Ok(()) } else { Err(e) },
    }
    // The server may need long for an index, and goes on building it by itself: no lock waits for it. While a member is
    // down, the index is not built, but locks can be taken.
    match make(server, &Call::begin(call.clock(), call.left() / 2)).await {
        Err(e) if e.kind() == ErrorKind::Rejected && !is_refused(&e) => Err(e),
        _ => Ok(()),
    }
}

/// Returns whether the collection has this version's index. `Rejected` if it has another version's.
pub(crate) async fn look(server: &Server, call: &Call) -> Result<IndexState> {
    match names(server, call).await {
        // The connection broke: retry. If the time is up instead, that fails at once.
        Err(e) if e.may_have_taken_effect() => index_state(&names(server, call).await?),
        names => index_state(&names?),
    }
}

/// Returns the names of the collection's indexes; none if the collection does not exist.
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

/// Creates the collection and its index.
pub(crate) async fn make(server: &Server, call: &Call) -> Result<()> {
    let link = server.link();
    let locks = link.locks().clone();
    let options = IndexOptions::builder().name(name()).expire_after(Duration::ZERO).build();
    let index = IndexModel::builder().keys(doc! { "forget": 1 }).options(options).build();
    // Not by `Server::ask`, which would replace the link: an index that takes long does not mean that the link is dead.
    detached(call.clock(), call.left(), async move { Ok(locks.create_index(index).await) })
        .await?
        .map_err(errors::request_error)
        .map(drop)
}

/// Returns what `make` does as a statement for administrators.
pub(crate) fn in_words(namespace: &Namespace) -> String {
    format!(
        "// created by the first client that opens it; in mongosh, in the database {}:\n\
         db.getCollection({:?}).createIndex({{ forget: 1 }}, {{ name: {:?}, expireAfterSeconds: 0 }});",
        namespace.database,
        namespace.collection,
        name()
    )
}

fn name() -> String {
    format!("{MARK}{VERSION}")
}

fn index_state(indexes: &[String]) -> Result<IndexState> {
    let Some(version) = indexes.iter().find_map(|name| name.strip_prefix(MARK)) else {
        return Ok(IndexState::Missing);
    };
    match version.parse::<u32>() {
        Ok(VERSION) => Ok(IndexState::Present),
        Ok(newer) if newer > VERSION => Err(Error::rejected(format!(
            "the collection of locks has version {newer}, newer than this program's ({VERSION}); update this program"
        ))),
        Ok(older) => Err(Error::rejected(format!(
            "the collection of locks has version {older}, older than this program's ({VERSION}); when no program of the \
             old version runs any more, drop the collection"
        ))),
        Err(_) => Err(Error::rejected(format!(
            "the collection of locks has an index \"{MARK}{version}\" that is not this library's; use another collection"
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
    fn a_version_error_says_what_to_change() {
        let said = |names: &[&str]| {
            index_state(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
                .map_err(|e| e.to_string())
        };
        assert_eq!(said(&["_id_", "onelock schema 1"]), Ok(IndexState::Present));
        assert_eq!(said(&["_id_", "mine"]), Ok(IndexState::Missing));
        assert_eq!(said(&[]), Ok(IndexState::Missing));
        assert!(said(&["onelock schema 2"]).unwrap_err().contains("newer"));
        assert!(said(&["onelock schema 0"]).unwrap_err().contains("older"));
        assert!(said(&["onelock schema x"]).unwrap_err().contains("not this library's"));
    }
}
