//! Fencing for a resource that is kept in MongoDB: a check of the token in the user's own transaction.

use lock_core::{FencingToken, Stale};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReturnDocument;
use mongodb::{ClientSession, Collection, Database};

use crate::statements;

/// The fence of a resource in a user's database. It accepts writes of a holder until a later holder has written.
///
/// The highest token that was accepted is kept in the collection `onelock_fences` of that database. Make the check in
/// the transaction that writes: then the check and the writes take effect together or not at all. If two holders'
/// transactions run at the same time, the server aborts one of them, because every check writes. A token that equals
/// the highest one is accepted: a holder may write more than once. All tokens of one resource have to come from one
/// lock.
///
/// A standalone server has no transactions. There, and wherever only one document is written, put the token into that
/// document: call `update_one` with the filter `{ _id, token: { $lte: mine } }`, and set `token` to mine in the same
/// update. If no document matches, the token is stale.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_mongo as mongodb; }
/// # async fn example(guard: lock_core::Guard, client: lock_mongo::mongodb::Client) -> Result<(), lock_mongo::FenceError> {
/// use onelock::mongodb::Fence;
/// use onelock::mongodb::mongodb::bson::{Document, doc};
/// let app = client.database("app");
/// let mut session = client.start_session().await?;
/// session.start_transaction().await?;
/// Fence::new(&app, "reports").accept(&mut session, guard.token()).await?;
/// app.collection::<Document>("reports").insert_one(doc! { "rows": 42 }).session(&mut session).await?;
/// session.commit_transaction().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Fence {
    fences: Collection<Document>,
    resource: Bson,
}

/// Why a token was not accepted, or may not have been.
#[derive(Debug)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder has written: the lock was lost in the meantime. Abort the transaction.
    Stale(Stale),
    /// The server or the connection failed. One reason is another holder's transaction at the same time: then the error
    /// has the label `TransientTransactionError`, and the whole transaction may be tried again.
    Mongo(mongodb::error::Error),
}

impl Fence {
    /// Returns the fence of `resource`, any name that stands for what is written in `database`.
    pub fn new(database: &Database, resource: impl AsRef<[u8]>) -> Fence {
        Fence {
            fences: database.collection("onelock_fences"),
            resource: statements::bytes(resource.as_ref()),
        }
    }

    /// Accepts `token` in the transaction of `session`, unless a later token was accepted before.
    ///
    /// The first call creates the collection of fences. Outside a transaction, the answer only says what was true at
    /// that moment.
    ///
    /// # Errors
    ///
    /// [`FenceError::Stale`] if a later token was accepted before: abort the transaction. [`FenceError::Mongo`] if the
    /// server or the connection failed.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe, because the `mongodb` crate is not. If the future is dropped, abort the transaction.
    pub async fn accept(&self, session: &mut ClientSession, token: FencingToken) -> Result<(), FenceError> {
        let offered = i64::try_from(token.get()).map_err(mongodb::error::Error::custom)?;
        let answer = self
            .fences
            .find_one_and_update(doc! { "_id": &self.resource }, accept(offered))
            .upsert(true)
            .return_document(ReturnDocument::After)
            .session(session)
            .await?;
        let highest =
            answer.and_then(|fence| fence.get_i64("token").ok()).and_then(|token| u64::try_from(token).ok());
        match highest.and_then(FencingToken::new) {
            Some(highest) if highest > token => Err(FenceError::Stale(Stale::new(token, highest))),
            _ => Ok(()),
        }
    }
}

/// Returns the pipeline of a check. It counts the checks, so that each one writes: two transactions that only read the
/// fence would not conflict.
fn accept(offered: i64) -> Vec<Document> {
    vec![doc! { "$set": {
        "token": { "$max": ["$token", offered] },
        "checks": { "$add": [{ "$ifNull": ["$checks", 0_i64] }, 1_i64] },
    } }]
}

impl From<mongodb::error::Error> for FenceError {
    fn from(error: mongodb::error::Error) -> FenceError {
        FenceError::Mongo(error)
    }
}

impl std::fmt::Display for FenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FenceError::Stale(stale) => stale.fmt(f),
            FenceError::Mongo(error) => {
                write!(f, "the fence could not be checked: {}", crate::errors::words(error))
            }
        }
    }
}

impl std::error::Error for FenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FenceError::Stale(stale) => Some(stale),
            FenceError::Mongo(error) => Some(error),
        }
    }
}
