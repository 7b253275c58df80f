//! Answers of the server, in our own terms.

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use lock_core::{Error, Result};

/// A key, and how it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) key: Vec<u8>,
    /// Empty also where it was not asked for.
    pub(crate) value: Vec<u8>,
    /// The revision of its creation: its rank in the queue, and the holder's token.
    pub(crate) created: i64,
    pub(crate) modified: i64,
    /// Zero if it has none.
    pub(crate) lease: i64,
}

/// Some keys of a range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    pub(crate) places: Vec<Place>,
    /// The range has more.
    pub(crate) more: bool,
}

impl Window {
    /// Of a range that was not asked for.
    pub(crate) const UNKNOWN: Window = Window { places: Vec::new(), more: true };
}

/// What a transaction answered, operation by operation.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) succeeded: bool,
    /// The revision of the store; of what was put, if something was.
    pub(crate) revision: i64,
    pub(crate) term: u64,
    operations: std::vec::IntoIter<TxnOpResponse>,
}

impl From<&KeyValue> for Place {
    fn from(kv: &KeyValue) -> Place {
        Place {
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
        Window { places: answer.kvs().iter().map(Place::from).collect(), more: answer.more() }
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
    /// What a `get` found.
    pub(crate) fn window(&mut self) -> Result<Window> {
        match self.operations.next() {
            Some(TxnOpResponse::Get(answer)) => Ok(Window::from(&answer)),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// What a `get` of one key found.
    pub(crate) fn place(&mut self) -> Result<Option<Place>> {
        Ok(self.window()?.places.into_iter().next())
    }

    /// How many keys a `delete` has deleted.
    pub(crate) fn deleted(&mut self) -> Result<i64> {
        match self.operations.next() {
            Some(TxnOpResponse::Delete(answer)) => Ok(answer.deleted()),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// That a `put` was done.
    pub(crate) fn put(&mut self) -> Result<()> {
        match self.operations.next() {
            Some(TxnOpResponse::Put(_)) => Ok(()),
            other => Err(unexpected(other.as_ref())),
        }
    }

    /// What a transaction inside this one answered.
    pub(crate) fn inner(&mut self) -> Result<Answers> {
        match self.operations.next() {
            Some(TxnOpResponse::Txn(answer)) => Ok(Answers::from(&answer)),
            other => Err(unexpected(other.as_ref())),
        }
    }
}

/// Only something that is no etcd answers like that.
fn unexpected(answer: Option<&TxnOpResponse>) -> Error {
    let what = match answer {
        None => "nothing",
        Some(TxnOpResponse::Get(_)) => "keys",
        Some(TxnOpResponse::Put(_)) => "a put",
        Some(TxnOpResponse::Delete(_)) => "a delete",
        Some(TxnOpResponse::Txn(_)) => "a transaction",
    };
    Error::rejected(format!("the server gave an answer to another question: {what}"))
}
