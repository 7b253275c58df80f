//! The requests that the library sends, on the default collection, for the benchmark `floor` (the raw driver with the
//! same requests). Not for users: they change with the layout of the documents.

use std::time::Duration;

use lock_core::{Owner, Result};
use mongodb::bson::{Bson, DateTime, Document};
use mongodb::options::{ClientOptions, WriteConcern};
use mongodb::{Client, Collection};

use crate::{errors, feed, link, settings, statements};

/// Creates a client of the `mongodb` crate with the settings that the library uses.
///
/// # Errors
///
/// If the `mongodb` crate refuses the options.
pub fn client(options: ClientOptions, patience: Duration) -> Result<Client> {
    Client::with_options(link::bounded(options, patience)).map_err(errors::request_error)
}

/// Returns the collection of locks.
pub fn locks(client: &Client) -> Collection<Document> {
    client.database(settings::DATABASE).collection(settings::COLLECTION)
}

/// Returns the `_id` of a name's document.
pub fn key(name: &str) -> Bson {
    statements::bytes(name.as_bytes())
}

/// Returns an owner as it is stored.
pub fn owner(owner: &Owner) -> Bson {
    statements::bytes(owner.as_bytes())
}

/// Returns an attempt's pipeline, for an upsert. It was granted if the document is its owner's afterwards.
pub fn attempt(owner: &Bson, label: &str, ttl: Duration, deadline: DateTime) -> Vec<Document> {
    statements::attempt(owner, label, i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX), deadline)
}

/// Returns a release's pipeline, for a document of which the owner holds the lock.
pub fn release() -> Vec<Document> {
    statements::release(0)
}

/// Returns the projection of every answer.
pub fn shown() -> Document {
    statements::projection()
}

/// Returns the write concern of every write.
pub fn majority() -> WriteConcern {
    link::majority()
}

/// Returns the pipeline of the change stream that reports releases.
pub fn freed() -> Vec<Document> {
    feed::freed()
}
