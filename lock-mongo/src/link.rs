//! A client of the `mongodb` crate with its own pool of connections and its own monitoring, and what is known of the
//! primary.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Clock, Effect, Error, Result};
use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, ClientOptions, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{Client, Collection, Database};

use crate::delayed_drop::DelayedDrop;
use crate::errors;
use crate::primary::Primary;
use crate::profile::Profile;

/// Connections to a set or to a server.
#[derive(Debug)]
pub(crate) struct Link {
    client: Client,
    database: Database,
    locks: Collection<Document>,
    pub(crate) primary: Arc<Primary>,
    _delayed_drop: DelayedDrop,
}

/// The namespace of the locks: database and collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) database: String,
    pub(crate) collection: String,
}

/// The server's report about itself.
#[derive(Clone, Debug)]
pub(crate) struct Hello {
    /// In milliseconds since 1970.
    pub(crate) now: i64,
    pub(crate) members: usize,
    pub(crate) set: Option<String>,
}

impl Link {
    /// Creates a link. Sends nothing yet.
    pub(crate) fn open(
        options: &ClientOptions,
        namespace: &Namespace,
        profile: &Arc<Profile>,
        clock: &Clock,
    ) -> Result<Link> {
        let primary = Arc::<Primary>::default();
        let mut options = options.clone();
        let others = options.sdam_event_handler.take();
        options.sdam_event_handler =
            Some(Primary::event_handler(primary.clone(), profile.clone(), clock.clone(), others));
        let client = Client::with_options(options).map_err(errors::request_error)?;
        let database = client.database(&namespace.database);
        let locks = database.collection(&namespace.collection);
        let _delayed_drop = DelayedDrop::of(client.clone(), clock.clone());
        Ok(Link { client, database, locks, primary, _delayed_drop })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn locks(&self) -> &Collection<Document> {
        &self.locks
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Asks the primary what it is, and what its time is.
    pub(crate) async fn hello(&self) -> mongodb::error::Result<Document> {
        let admin = self.client.database("admin");
        admin.run_command(doc! { "hello": 1 }).selection_criteria(primary_only()).await
    }
}

impl Hello {
    pub(crate) fn parse(answer: &Document) -> Result<Hello> {
        let now = answer.get_datetime("localTime").map_err(|e| {
            Error::unavailable(Effect::NotApplied, "the server did not tell its time").with_source(e)
        })?;
        Ok(Hello {
            now: now.timestamp_millis(),
            members: answer.get_array("hosts").map_or(1, Vec::len),
            set: answer.get_str("setName").ok().map(str::to_owned),
        })
    }
}

/// Selects the primary for reads, as for writes.
pub(crate) fn primary_only() -> SelectionCriteria {
    ReadPreference::Primary.into()
}

/// The write concern of all writes that count: a minority of the set can't lose them.
pub(crate) fn majority() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build()
}

/// Returns [`majority`] as commands contain it.
pub(crate) fn majority_in_command() -> Document {
    doc! { "w": "majority", "j": true }
}

/// The write concern of writes that may be lost, as commands contain it: the mark of a waiter.
pub(crate) fn one_node_in_command() -> Document {
    doc! { "w": 1 }
}

const HEARTBEAT: Duration = Duration::from_secs(2);

/// Sets what locks need in any case, and time limits and the size of the pool where the user has set none.
pub(crate) fn bounded(mut options: ClientOptions, patience: Duration) -> ClientOptions {
    // Less than a call may take, so that the crate can still say what is wrong with the servers and that nothing was
    // sent.
    options.server_selection_timeout.get_or_insert(patience / 5 * 4);
    options.connect_timeout.get_or_insert(patience);
    // The crate's default is 10 s. For so long, a primary that failed for a moment could be taken for lost.
    options.heartbeat_freq.get_or_insert(HEARTBEAT);
    // The crate's default is 10. If 64 locks are taken at once, most of them would wait for a connection.
    options.max_pool_size.get_or_insert(100);
    options.retry_writes = Some(true);
    options.write_concern = Some(majority());
    options.read_concern = None;
    options.selection_criteria = Some(primary_only());
    options
}
