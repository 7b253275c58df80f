//! Well-known schemes for distributed locks, each as the texts that recommend it describe it, as a driver of the library.
//!
//! They are here to be compared with, and must not be used: **their flaws are part of them**. Each scheme's file names
//! the text that it follows, and the claims of `docs/claims.md` (T1, T2, …) that are its flaws. What the library does
//! for every driver (waiting by looking again, reentrancy in one process, the deadline of a holder) is not a property of
//! the scheme.
//!
//! No scheme has a fencing token: every holder is given the number 1. None can be revoked. A request that is late can
//! still take effect, because none carries a deadline.

mod driver;
mod fair_queue;
mod find_and_modify;
mod redis_server;
mod redlock;
mod set_nx_ex;
mod setnx;
mod unique_index;

use lock_core::toolkit::Location;
use lock_core::{Client, Options, Result};

/// A scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// MySQL: insert a row under a unique index, delete it.
    UniqueIndex,
    /// MongoDB: `findAndModify` inserts the document if it is absent; delete it.
    FindAndModify,
    /// Redis: `SETNX`, then `EXPIRE`; `DEL`.
    Setnx,
    /// Redis: `SET NX EX` with a random value; a script compares and deletes.
    SetNxEx,
    /// Redis: a majority of independent servers, within the validity time.
    Redlock,
    /// Redis: a list of waiters, and a sorted set of their timeouts.
    FairQueue,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Scheme; 6] = [
        Scheme::UniqueIndex,
        Scheme::FindAndModify,
        Scheme::Setnx,
        Scheme::SetNxEx,
        Scheme::Redlock,
        Scheme::FairQueue,
    ];

    /// Returns its name, which is also what `Info::backend` says.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::UniqueIndex => unique_index::NAME,
            Scheme::FindAndModify => find_and_modify::NAME,
            Scheme::Setnx => setnx::NAME,
            Scheme::SetNxEx => set_nx_ex::NAME,
            Scheme::Redlock => redlock::NAME,
            Scheme::FairQueue => fair_queue::NAME,
        }
    }

    /// Opens a client. The URL is that of the library's own backend on this kind of server: `mysql://…`, `mongodb://…`,
    /// `redis://…`, or `redlock://HOST,HOST,…`. Parameters after the `?` are not read, except on MongoDB.
    ///
    /// # Errors
    ///
    /// [`Invalid`](lock_core::ErrorKind::Invalid) if the URL can't be read; otherwise those of the server.
    pub async fn connect(self, url: &str, options: Options) -> Result<Client> {
        let location = Location::parse(url)?;
        let (name, base) = (self.name(), location.base().to_owned());
        let (server, url) = (driver::without_login(&base).to_owned(), url.to_owned());
        macro_rules! open {
            ($scheme:ident, $at:expr) => {
                options.open(name, &server, |context| $scheme::open($at.clone(), context)).await
            };
        }
        match self {
            Scheme::UniqueIndex => open!(unique_index, base),
            Scheme::FindAndModify => open!(find_and_modify, url),
            Scheme::Setnx => open!(setnx, base),
            Scheme::SetNxEx => open!(set_nx_ex, base),
            Scheme::Redlock => open!(redlock, location),
            Scheme::FairQueue => open!(fair_queue, base),
        }
    }
}
