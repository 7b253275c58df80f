//! The very requests on the default collection, for the benchmark's floor. Not for users: they change with the documents.

use std::time::Duration;

use lock_core::{Owner, Result};
use mongodb::bson::{Bson, DateTime, Document};
use mongodb::options::{ClientOptions, WriteConcern};
use mongodb::{Client, Collection};

use crate::{errors, feed, link, settings, statements};

/// A client of the driver's as the library sets it up.
pub fn client(options: ClientOptions, patience: Duration) -> Result<Client> {
    Client::with_options(link::bounded(options, patience)).map_err(errors::asking)
}

/// Where the locks are.
pub fn locks(client: &Client) -> Collection<Document> {
    client.database(settings::DATABASE).collection(settings::COLLECTION)
}

/// A name's `_id`.
pub fn key(name: &str) -> Bson {
    statements::bytes(name.as_bytes())
}

/// An owner as it is stored.
pub fn owner(owner: &Owner) -> Bson {
    statements::bytes(owner.as_bytes())
}

/// An attempt's pipeline, upserting; the document is its owner's if it was granted.
pub fn attempt(owner: &Bson, label: &str, ttl: Duration, deadline: DateTime) -> Vec<Document> {
    statements::attempt(owner, label, i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX), deadline)
}

/// A release's pipeline, for a document of the owner's.
pub fn release() -> Vec<Document> {
    statements::release()
}

/// What is answered of a document.
pub fn shown() -> Document {
    statements::shown()
}

/// With which every write is made.
pub fn majority() -> WriteConcern {
    link::majority()
}

/// The pipeline of the stream that tells of releases.
pub fn freed() -> Vec<Document> {
    feed::freed()
}
