//! The contract between the core and a backend.
//!
//! A [`Driver`] knows one server. It opens [`Claim`]s. A claim is everything that one owner does with one name, from
//! the first attempt to the release. In the core one task owns each claim for its whole life. Waiting, deadlines,
//! renewal, loss and cancellation are written there, once. A driver teaches the core about its server, and nothing else.
//! [Add a backend](https://github.com/onelock/onelock/blob/main/docs/add-a-backend.md) explains a driver from end to end;
//! [`toolkit`](crate::toolkit) has what the backends of this project are built from.
//!
//! The types that drivers make may get new fields: they have constructors, and public fields that can be set.

mod answer;
mod finding;
mod info;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::name::Name;

pub use crate::ending::LossReason;
pub use crate::entry::Entry;
pub use crate::period::UnixTime;
pub use answer::{Attempt, Busy, Grant, Inspection, Release, Renewal, Revoked, Takeover, Watched};
pub use finding::{Finding, Level};
pub use info::{Fair, Fencing, Info, Lease, Lists, Takeovers, Wakes};
pub use request::{Context, HoldCount, Mode, Predecessor, Queueing, Request, Revocation, When};

/// A server on which locks can be claimed.
///
/// Every call returns within the patience that it was given, counted on the client's clock, whatever the network does;
/// only [`names`](Self::names) has it for each of its requests. A driver has no timer except that limit. It retries only what the server says it did not do. It logs nothing, and it
/// only classifies errors: the core adds where they happened.
#[async_trait]
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// Returns what this backend guarantees and can do, as found on the connected server.
    fn info(&self) -> Arc<Info>;

    /// Starts a claim. Does no I/O.
    fn claim(&self, request: Request) -> Box<dyn Claim>;

    /// Returns the holder of the lock and, where the server knows them, the waiters.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server has not answered within `patience`; otherwise the error that the server returned.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection>;

    /// Takes the lock from the holder that [`inspect`](Self::inspect) showed. From then on that holder's renewals fail
    /// and say why.
    ///
    /// Returns [`Revoked::NotHeld`] if that holder no longer has the lock.
    ///
    /// What the revoke leaves in the holder's place until the deadline ends early if that holder releases, also if it
    /// was revoked again in between.
    ///
    /// # Errors
    ///
    /// `Rejected` for a key that no lock client can have written. `Unavailable` if the server has not answered within the
    /// patience of `revocation`.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked>;

    /// Checks whether the server can be reached, has what locks need, and grants this client the necessary rights.
    /// Returns one finding per question.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server has not answered within `patience`, unless the driver reports that as a finding.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn check(&self, patience: Duration) -> Result<Vec<Finding>>;

    /// Returns the names of all locks that are held or waited for and that begin with `beginning`, in any order.
    ///
    /// It may also return names whose lock is free. It writes nothing, and reads the names alone. What other libraries'
    /// clients hold may be missing.
    ///
    /// Beside many other keys it takes many requests. Each of them has the whole `patience`.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the server can't list the names; then [`Info::lists`] is [`Lists::Nothing`]. `Unavailable`
    /// if the server has not answered one of the requests within `patience`, with the number of keys that were read
    /// before; otherwise the error that the server returned.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn names(&self, _beginning: &str, _patience: Duration) -> Result<Vec<Name>> {
        Err(Error::unsupported("this server can't list its locks"))
    }

    /// Creates what the server needs once before its first lock (a table, an index), if it is missing. Changes nothing
    /// else.
    ///
    /// Returns a description of what was done, which is empty if there was nothing to do.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server has not answered within `patience`; otherwise the error that the server returned.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn init(&self, _patience: Duration) -> Result<String> {
        Ok(String::new())
    }
}

/// Everything that one owner does with one name.
///
/// The core makes one call at a time. Each call may be repeated: the server recognises by the owner what it has already
/// done.
#[async_trait]
pub trait Claim: fmt::Debug + Send {
    /// Takes the lock if it is free. If it is held, the request waits and the server has a queue, keeps a place in that
    /// queue.
    ///
    /// 1. If this owner holds the lock already, it is granted again, with the same token and with what the server has
    ///    left of the lease.
    /// 2. An attempt that finds the lock held writes nothing, except its place in the queue.
    /// 3. An attempt can't take effect after [`Request::patience`], counted from its start.
    /// 4. If no answer came, the error is `Unavailable`, with `Effect::Unknown` unless the server can't have done it.
    ///
    /// An attempt takes one round trip where the server allows that.
    ///
    /// # Errors
    ///
    /// If no answer came, `Unavailable` as rule 4 says; otherwise the error that the server returned.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, even if its caller has gone, unless its runtime ends.
    async fn attempt(&mut self) -> Result<Attempt>;

    /// Takes the lock from `predecessor`, another owner of this client whose work under the lock has ended: a release and
    /// an attempt in one request.
    ///
    /// 1. If the predecessor does not hold the lock, because its lease has ended or it was revoked, nothing is changed.
    ///    The predecessor's [`release`](Self::release) and this claim's [`attempt`](Self::attempt) follow then.
    /// 2. This owner gets a token of its own, higher than its predecessor's, and a whole ttl.
    /// 3. A takeover can't take effect after [`Request::patience`], counted from its start.
    /// 4. If no answer came, the error is `Unavailable`, with `Effect::Unknown` unless the server can't have done it. The
    ///    same two calls follow then. If the takeover has taken effect, the first finds nothing to release, and the
    ///    second is granted what this owner holds.
    ///
    /// The lock is not free in between, so waiters of other clients need not be woken. The core calls this as the first
    /// call of a claim, where [`Info::takeovers`] says so, and does not do so for more than a few holds in a row.
    ///
    /// # Errors
    ///
    /// `Unsupported` where a release and an attempt take two requests. If no answer came, `Unavailable` as rule 4 says;
    /// otherwise the error that the server returned.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn take_over(&mut self, _predecessor: &Predecessor) -> Result<Takeover> {
        Err(Error::unsupported("this server takes a release and an attempt"))
    }

    /// Starts to listen: after this call has returned, a release by any client makes [`changed`](Self::changed)
    /// resolve.
    ///
    /// If the server has to know of waiters before it announces a release, this call marks on the server that one
    /// waits. The core attempts again after this call and only then waits, so that it misses no release in between. It
    /// does not call this where the attempt's answer says that the claim listens already ([`Busy::and_listens`]).
    ///
    /// # Errors
    ///
    /// `Unsupported` if this server can't push to this client. The core then polls.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn listen(&mut self) -> Result<()> {
        Ok(())
    }

    /// Resolves when the state of this claim may have changed since it was last seen. May also resolve without a
    /// change.
    ///
    /// # Cancel safety
    ///
    /// Must be cancel safe: the core drops this future and calls it again.
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }

    /// Starts to listen for a revoke: after this call has returned, a revoke of what this claim holds makes
    /// [`changed`](Self::changed) resolve.
    ///
    /// Where that takes a subscription, one subscription serves all claims of the client. The core calls this a moment
    /// after the grant, because most locks are released before another client could revoke them.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this server does not announce revokes: the holder then learns of one from its next renewal.
    /// After any other error the core calls this again.
    ///
    /// # Cancel safety
    ///
    /// Must be cancel safe: the core may drop this future and call it again.
    async fn watch(&mut self) -> Result<Watched> {
        Err(Error::unsupported("this server does not tell holders that their lock was revoked"))
    }

    /// Confirms that this owner holds the lock, and keeps it for `ttl` from now, never for less than the time that was
    /// left.
    ///
    /// [`Renewal::Held`] proves this lock, and not only its session. A renewal never takes a lock that was lost.
    ///
    /// # Errors
    ///
    /// An error means that the outcome is unknown. The core retries until its own deadline.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn renew(&mut self, ttl: Duration) -> Result<Renewal>;

    /// Releases what this owner has on the server, the lock or a place in the queue, found by name and owner. Where the
    /// server allows it, a release also defeats an attempt of this owner that is still on its way. It never touches
    /// what belongs to another owner.
    ///
    /// If the lock was revoked, the release removes the entry that replaces it until the deadline: the name is free at
    /// once. The core calls it when the work under the lock has ended, and not when the loss is told. (On a server with
    /// a queue, the release does not remove that if this owner has made another attempt since.)
    ///
    /// # Errors
    ///
    /// `Unavailable` if no answer came. The core then calls this again.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn release(&mut self) -> Result<Release>;

    /// Asks for the server's time, by the clock that ends this lock's lease, or by one that goes as fast and is set
    /// together with it. Changes nothing.
    ///
    /// The server has to read its clock after the call began. It may tell an earlier time than it read, as servers do
    /// that tell whole milliseconds, and never a later one: a slot that is kept a moment too long delays the next run,
    /// and one that is kept too short lets the work be done twice.
    ///
    /// The core calls this only for locks that are held [once per period](crate::PeriodicLock): once before the first
    /// attempt, once after the grant, and when the work is done.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the server tells no time that counts from 1970, or if leases don't end by it: such a lock is
    /// then refused before anything is taken. `Unavailable` if no answer came.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the core runs it to completion, unless its runtime ends.
    async fn server_time(&mut self) -> Result<UnixTime> {
        Err(Error::unsupported(
            "this server tells no time by which its leases end, so it can't keep locks once per period",
        ))
    }
}
