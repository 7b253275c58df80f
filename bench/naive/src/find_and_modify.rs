//! MongoDB: a document. To lock, `findAndModify` looks for it and inserts it if it is absent. To unlock, delete it.
//!
//! The text: "Comparison of common schemes for distributed locks" (on Redis locks and Redisson), second row.
//!
//! The flaw that the text names: T5 (no expiry: after a crash the document stays for ever). Flaws that follow from it:
//! not reentrant, no blocking wait, and the document does not say whose it is, so that a release deletes another's.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Context, Renewal, Request};
use lock_core::toolkit::{Call, Location};
use lock_core::{Effect, Error, Name, Result};
use mongodb::bson::{Document, doc};
use mongodb::error::{ErrorKind, WriteFailure};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};

use crate::driver::{LONGEST, Recipe, SchemeDriver, busy, call, granted, held, info, lost};

pub(crate) const NAME: &str = "naive-find-and-modify";

/// MongoDB's code for a document whose `_id` is there already.
const DUPLICATE_KEY: i32 = 11000;

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<FindAndModify>> {
    let failed = |e| Error::unavailable(Effect::NotApplied, "MongoDB can't be used").with_source(e);
    let mut options = ClientOptions::parse(&url).await.map_err(failed)?;
    options.server_selection_timeout = Some(context.patience);
    let client = Client::with_options(options).map_err(failed)?;
    let database = client.database("naive");
    let call = Call::begin(&context.clock, context.patience);
    answered(&call, database.run_command(doc! { "ping": 1 })).await?;
    let locks = FindAndModify(database.collection("locks"));
    // The driver panics if the last handle is dropped while the runtime ends.
    std::mem::forget(client);
    let mut info = info(NAME, Location::parse(&url)?.base(), Duration::from_millis(10)..=LONGEST);
    info.clock = "none: a lock ends when it is released, and after a crash of its holder never";
    info.data_loss = "frees every lock; a release frees the lock of any holder".to_owned();
    Ok(SchemeDriver::new(locks, info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct FindAndModify(Collection<Document>);

impl FindAndModify {
    async fn find(&self, name: &Name, call: &Call) -> Result<Option<Document>> {
        answered(call, self.0.find_one(doc! { "_id": name.as_str() })).await
    }
}

async fn answered<T>(call: &Call, request: impl IntoFuture<Output = mongodb::error::Result<T>>) -> Result<T> {
    let answer = call.within(request.into_future()).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
    answer.map_err(|e| Error::unavailable(Effect::Unknown, "MongoDB did not do it").with_source(e))
}

#[async_trait]
impl Recipe for FindAndModify {
    type State = ();

    async fn attempt(&self, request: &Request, (): &mut ()) -> Result<Attempt> {
        let (wanted, insert) =
            (doc! { "_id": request.name.as_str() }, doc! { "$setOnInsert": { "locked": true } });
        let insert = self.0.find_one_and_update(wanted, insert).upsert(true).into_future();
        let inserted = async {
            match insert.await {
                Ok(found_before) => Ok(found_before.is_none()),
                // Another client has inserted it between the look and the insert.
                Err(e) if is_duplicate(&e) => Ok(false),
                Err(e) => Err(e),
            }
        };
        let inserted = answered(&call(request), Box::pin(inserted)).await?;
        Ok(if inserted { granted(request.ttl) } else { busy() })
    }

    /// Nothing has to be renewed. There is a document, of this client or of another.
    async fn renew(&self, request: &Request, (): &mut (), ttl: Duration) -> Result<Renewal> {
        let found = self.find(&request.name, &call(request)).await?;
        Ok(found.map_or_else(lost, |_| held(ttl)))
    }

    async fn release(&self, request: &Request, (): &mut ()) -> Result<bool> {
        let delete = self.0.delete_one(doc! { "_id": request.name.as_str() });
        Ok(answered(&call(request), delete).await?.deleted_count > 0)
    }
}

fn is_duplicate(error: &mongodb::error::Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(refused) => refused.code == DUPLICATE_KEY,
        ErrorKind::Write(WriteFailure::WriteError(refused)) => refused.code == DUPLICATE_KEY,
        _ => false,
    }
}
