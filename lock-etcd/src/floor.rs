//! The requests that the library sends for an uncontended name and for two clients that take turns. The benchmark
//! measures them as its lower limit. Not for users: they change whenever the keys change.

use etcd_client::{Txn, TxnResponse};
use lock_core::toolkit::Prefix;
use lock_core::{Label, Name, Owner, Random, Result};

use crate::keys::{Layout, Own};
use crate::transactions::{self, Entered};

/// The keys of one name, as a client of the library has them.
#[derive(Debug)]
pub struct Queue {
    layout: Layout,
    name: Name,
}

/// One acquisition.
#[derive(Debug)]
pub struct Claim {
    own: Own,
    /// The create revision of its key; zero while the key does not exist.
    created: i64,
}

impl Queue {
    /// Creates the keys of one name.
    ///
    /// # Errors
    ///
    /// `Invalid` if `name` is not a valid name.
    pub fn new(name: &str, random: &Random) -> Result<Queue> {
        Ok(Queue { layout: Layout::new(Prefix::default(), random), name: Name::new(name)? })
    }

    /// Returns what all keys of the name begin with.
    pub fn start(&self) -> Vec<u8> {
        self.layout.queue(&self.name).start().to_vec()
    }

    /// Starts an acquisition of this owner. It uses the key that a client uses every time.
    pub fn claim(&self, owner: Owner) -> Claim {
        Claim { own: self.layout.own(&self.name, 0, owner, &Label::new("lock-bench")), created: 0 }
    }
}

impl Claim {
    /// Returns its key.
    pub fn key(&self) -> &[u8] {
        &self.own.key
    }

    /// Returns the request that takes a place under this lease, or that looks at the place if there is one.
    pub fn ask(&self, lease: i64) -> Txn {
        match self.created {
            0 => transactions::enter(&self.own, lease),
            created => transactions::look(&self.own, created),
        }
    }

    /// Returns whether the answer shows no place before its own.
    ///
    /// # Errors
    ///
    /// `Rejected` if the answer does not fit the request.
    pub fn is_first(&mut self, answer: &TxnResponse, lease: i64) -> Result<bool> {
        let around = match self.created {
            0 => match transactions::entered(answer, lease)? {
                Entered::Taken { metadata, around, .. } => {
                    self.created = metadata.created;
                    around
                }
                Entered::Refused(_) => return Ok(false),
            },
            _ => transactions::looked(answer)?.1,
        };
        Ok(!around.keys.iter().any(|place| place.created < self.created))
    }

    /// Returns the request that gives the place back.
    pub fn release(&self) -> Txn {
        transactions::release(&self.own)
    }

    /// Returns whether the answer shows that there was a place to give back.
    ///
    /// # Errors
    ///
    /// `Rejected` if the answer does not fit the request.
    pub fn is_released(&self, answer: &TxnResponse) -> Result<bool> {
        Ok(transactions::released(answer)?.is_some())
    }
}
