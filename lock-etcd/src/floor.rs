//! The very requests of uncontended names and of two who take turns, for the benchmark's floor. Not for users: they change
//! with the keys.

use etcd_client::{Txn, TxnResponse};
use lock_core::{Label, Name, Owner, Prefix, Random, Result};

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
    /// The rank of its key; zero while there is none.
    created: i64,
}

impl Queue {
    /// `Invalid` for what is no name.
    pub fn new(name: &str, random: &Random) -> Result<Queue> {
        Ok(Queue { layout: Layout::new(Prefix::default(), random), name: Name::new(name)? })
    }

    /// What all keys of the name begin with.
    pub fn start(&self) -> Vec<u8> {
        self.layout.queue(&self.name).start().to_vec()
    }

    /// An acquisition of this owner's, with the key that a client uses again and again.
    pub fn claim(&self, owner: Owner) -> Claim {
        Claim { own: self.layout.own(&self.name, 0, owner, &Label::new("lock-bench")), created: 0 }
    }
}

impl Claim {
    /// Its key.
    pub fn key(&self) -> &[u8] {
        &self.own.key
    }

    /// Takes a place under this lease; or looks at it, if there is one.
    pub fn ask(&self, lease: i64) -> Txn {
        match self.created {
            0 => transactions::enter(&self.own, lease),
            created => transactions::look(&self.own, created),
        }
    }

    /// Whether the answer says that nobody stands before it.
    pub fn is_first(&mut self, answer: &TxnResponse, lease: i64) -> Result<bool> {
        let around = match self.created {
            0 => match transactions::entered(answer, lease)? {
                Entered::Taken { standing, around, .. } => {
                    self.created = standing.created;
                    around
                }
                Entered::Refused(_) => return Ok(false),
            },
            _ => transactions::looked(answer)?.1,
        };
        Ok(!around.places.iter().any(|place| place.created < self.created))
    }

    /// Gives its place up.
    pub fn release(&self) -> Txn {
        transactions::release(&self.own)
    }

    /// Whether it had one.
    pub fn is_released(&self, answer: &TxnResponse) -> Result<bool> {
        Ok(transactions::released(answer)?.is_some())
    }
}
