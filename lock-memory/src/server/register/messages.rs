//! The messages between a client and a register server.

use std::sync::Arc;

use crate::server::Key;
use crate::time::ServerTime;

/// The requests to the server.
#[derive(Clone, Debug)]
pub enum Request {
    /// Ask for the server's time.
    Time,
    /// Ask for the last write of a key.
    Get {
        /// The key.
        key: Key,
    },
    /// Replace the value of a key if `expected` is still the revision of its last write.
    Put {
        /// The key.
        key: Key,
        /// The revision; `None` if this has to be the first write.
        expected: Option<u64>,
        /// The new value.
        value: Arc<[u8]>,
    },
    /// Push a [`Notification::Written`] to this client after each write of the key.
    Watch {
        /// The key.
        key: Key,
        /// Numbers the client's `Watch`es, so that an `Unwatch` that is late can't undo a newer one.
        serial: u64,
    },
    /// Undo the `Watch` of this serial, or of an earlier one.
    Unwatch {
        /// The key.
        key: Key,
        /// The serial of the `Watch`.
        serial: u64,
    },
    /// Push each [`Notification::Published`] to this client, from now on.
    Subscribe,
    /// Tell this to every client that has subscribed.
    Publish {
        /// The text.
        text: Arc<str>,
    },
    /// End the lease now, as an administrator who knows what rows mean. For tests.
    Expire {
        /// The key.
        key: Key,
    },
}

/// The answers of the server.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The request was done; there is nothing else to tell.
    Done,
    /// The last write of a key; `None` if there was none.
    Last(Option<Written>),
    /// The value was replaced, and has this revision. The time of the answer is the stamp.
    Applied {
        /// The new revision.
        revision: u64,
    },
    /// Another write came first.
    Refused,
    /// No lock is held under this key.
    NotHeld,
}

/// A write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The value that was written.
    pub value: Arc<[u8]>,
    /// The revision of the write. No two writes have the same.
    pub revision: u64,
    /// The time of the write.
    pub stamp: ServerTime,
}

/// The notifications that the server pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The key has a new value.
    Written(Key, Arc<[u8]>),
    /// A client has published this.
    Published(Arc<str>),
}
