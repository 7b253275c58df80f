//! The server's answers, converted to this crate's types.

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use lock_core::{Error, Result};

/// A key that an answer has shown: one place in a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) key: Vec<u8>,
    /// Empty also if the request did not ask for values.
    pub(crate) value: Vec<u8>,
    /// The create revision: the key's rank in the queue, and the holder's fencing token.
    pub(crate) created: i64,
    pub(crate) modified: i64,
    /// Zero if the key has no lease.
    pub(crate) lease: i64,
}

/// The first keys of a range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    pub(crate) keys: Vec<StoredKey>,
    /// The range has more keys.
    pub(crate) more: bool,
}

impl Window {
    /// A range that was not requested: nothing is known of it.
    pub(crate) const UNKNOWN: Window = Window { keys: Vec::new(), more: true };
}

/// The answer to a transaction, read operation by operation.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) succeeded: bool,
    /// The store's revision. If the transaction put keys, this is also their revision.
    pub(crate) revision: i64,
    pub(crate) term: u64,
    operations: std::vec::IntoIter<TxnOpResponse>,
}

impl From<&KeyValue> for StoredKey {
    fn from(kv: &KeyValue) -> StoredKey {
        StoredKey {
            key: kv.key().to_vec(),
            value: kv.value().to_vec(),
            created: kv.create_revision(),
            modified: kv.mod_revision(),
            lease: kv.lease(),
        }
    }
}

impl From<&GetResponse> for Window {
    fn from(answer: &GetResponse) -> Window {
        Window { keys: answer.kvs().iter().map(StoredKey::from).collect(), more: answer.more() }
    }
}

impl From<&TxnResponse> for Answers {
    fn from(answer: &TxnResponse) -> Answers {
        let header = answer.header();
        Answers {
            succeeded: answer.succeeded(),
            revision: header.map_or(0, etcd_client::ResponseHeader::revision),
            term: header.map_or(0, etcd_client::ResponseHeader::raft_term),
            operations: answer.op_responses().into_iter(),
        }
    }
}

impl Answers {
    /// Returns the keys that the next operation, a `get`, has found.
    pub(crate) fn window(&mut self) -> Result<Window> {
        match self.operations.next() {
            Some(TxnOpResponse::Get(answer)) => Ok(Window::from(&answer)),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Returns the key that the next operation, a `get` of one key, has found.
    pub(crate) fn key(&mut self) -> Result<Option<StoredKey>> {
        Ok(self.window()?.keys.into_iter().next())
    }

    /// Returns how many keys the next operation, a `delete`, has deleted.
    pub(crate) fn deleted(&mut self) -> Result<i64> {
        match self.operations.next() {
            Some(TxnOpResponse::Delete(answer)) => Ok(answer.deleted()),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Checks that the next operation is a `put`.
    pub(crate) fn put(&mut self) -> Result<()> {
        match self.operations.next() {
            Some(TxnOpResponse::Put(_)) => Ok(()),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// Returns the answer to the next operation, a nested transaction.
    pub(crate) fn inner(&mut self) -> Result<Answers> {
        match self.operations.next() {
            Some(TxnOpResponse::Txn(answer)) => Ok(Answers::from(&answer)),
            other => Err(unexpected(other.as_ref())),
        }
    }
}

/// The error for an answer that does not fit the request. An etcd server never sends one.
fn unexpected(answer: Option<&TxnOpResponse>) -> Error {
    let what = match answer {
        None => "nothing",
        Some(TxnOpResponse::Get(_)) => "keys",
        Some(TxnOpResponse::Put(_)) => "a put",
        Some(TxnOpResponse::Delete(_)) => "a delete",
        Some(TxnOpResponse::Txn(_)) => "a transaction",
    };
    Error::rejected(format!(
        "the server's answer does not fit the request (it holds {what}); the address may not be that of an etcd server"
    ))
}
