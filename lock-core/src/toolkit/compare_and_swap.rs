//! Look, decide, swap, look again: for servers that have no step of their own that grants a lock.

use crate::error::{Effect, Error, Result};
use crate::toolkit::Call;

/// One value on a server that can read it, and replace it if it has not changed since.
///
/// NATS KV, Consul KV, DynamoDB and object stores with `If-Match` have such values. A backend keeps one for each name,
/// the lock's *row*: the owner, its label, the length of the lease, and what else the next client has to know.
///
/// The row is never removed, except when it is much older than any request that can still be on its way: a name
/// without a row could not be told from one that has lost its row in between. A free lock is a row that says so.
///
/// For a server that stamps its writes, [`Registers`](super::Registers) is less to write: the core then has the row and
/// the claim, too. This trait is the piece below it.
///
/// [`compare_and_swap`] drops the futures of `look` and `swap` when the call's time, or its share of it, is over.
pub trait Register: Send + Sync {
    /// The identity of a write: a revision, an ETag, a version. No two writes of a register have the same.
    ///
    /// A register that was never written has one as well: zero on NATS; `None` of an `Option` where the condition is
    /// `If-None-Match: *`. It may contain what else the server says of the write, such as its time.
    type Revision: PartialEq + Send + Sync;

    /// Reads the value, and the revision of its last write. `None` if it was never written.
    ///
    /// It must not be older than the last write that was answered to any client: the read goes to the leader, or is
    /// marked as consistent.
    ///
    /// # Errors
    ///
    /// As of any request to the server.
    fn look(&self, call: &Call) -> impl Future<Output = Result<(Option<Vec<u8>>, Self::Revision)>> + Send;

    /// Replaces the value, if `expected` is still the revision of its last write. Asks once.
    ///
    /// # Errors
    ///
    /// `Unavailable` with [`Effect::Unknown`] if the value may have been replaced, or may still be.
    fn swap(
        &self,
        call: &Call,
        expected: &Self::Revision,
        value: &[u8],
    ) -> impl Future<Output = Result<Swapped<Self::Revision>>> + Send;
}

/// The answer to a swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swapped<R> {
    /// The value was replaced, and has this revision.
    Applied(R),
    /// Another write came first.
    Refused,
}

/// The client's decision on seeing a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// To replace it by this one. Values of different owners must differ, so an owner's value contains the owner.
    Write(Vec<u8>),
    /// To write nothing: the lock is busy, is this owner's already, or was lost.
    Leave(T),
}

/// The effect of a call on the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled<R, T> {
    /// The call has written the value.
    Written {
        /// The value.
        value: Vec<u8>,
        /// The revision that it got.
        revision: R,
    },
    /// The call has written nothing, for this reason.
    Left(T),
}

/// The knowledge of a register with which a call starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start<R> {
    /// Nothing: the first thing it does is a look.
    Look,
    /// The last write of this owner, which no other client has replaced as far as it knows. The first look is left
    /// out, which saves a round trip if that is so. If it is not, the swap is refused, and a look follows.
    ///
    /// Forget what is known after a call that failed: a write of that call may have replaced it, or still may.
    Known {
        /// The value.
        value: Vec<u8>,
        /// The revision of its last write.
        revision: R,
    },
}

/// Looks at a register, lets `decide` say what to write, and writes it unless another client has written in between.
/// Then it looks and decides again.
///
/// `decide` may be called several times. It gets the value (`None` if there was never one) and its revision. A decision
/// to [leave](Decision::Leave) what was only [known](Start::Known) does not count: a look follows, and another decision.
///
/// A swap whose answer is lost may have been applied. The next look tells: a value that is the same as the sent one,
/// at another revision, is this call's own. Another value at another revision means that the swap is refused whenever
/// it arrives. The revision that was expected means that it may still be applied, and the call ends with its error. An
/// eighth of the call's time is kept for that look.
///
/// There is no pause and no limit of rounds except the call's time: each round after the first one is due to another
/// client that has written.
///
/// Not for a release, see [`compare_and_release`].
///
/// # Deadlines
///
/// A swap may be applied after its call is over, and this server can't refuse it. If the server stamps each write with
/// its time, the row says until when it may be stamped, and *is void to every reader if it was stamped later*. Let the
/// revision contain the stamp. What the row says depends on the call:
///
/// - An attempt: [`ServerClock::deadline`](super::ServerClock::deadline). A void row is a free lock. It keeps the last
///   token that was granted before.
/// - A renewal: the end of the lease that it prolongs, and not a moment before it, because its owner relies on that
///   lease still if the renewal is not answered. The lock was lost then, and a void row is free in the same way.
/// - A release has no deadline. Whenever it is applied, it replaces the very row that its owner had and has given up.
///
/// Judge [`Settled::Written`] by the same rule: an answer in time does not show that the stamp is. If the server does
/// not answer a swap with the stamp, [`Register::swap`] asks for it.
///
/// # Errors
///
/// - Errors of `decide`, and errors of [`Register::swap`] after which nothing was written.
/// - `Unavailable` with [`Effect::Unknown`] if a swap may have been applied, or may still be.
/// - `Unavailable` with [`Effect::NotApplied`] if a look fails, or the call's time is over, and no such swap was sent.
///
/// # Cancel safety
///
/// If the future is dropped, a swap may have been applied, or may still be.
pub async fn compare_and_swap<R: Register, T>(
    call: &Call,
    register: &R,
    start: Start<R::Revision>,
    decide: impl FnMut(Option<&[u8]>, &R::Revision) -> Result<Decision<T>>,
) -> Result<Settled<R::Revision, T>> {
    swap_until_settled(call, register, start, Unanswered::IsLookedAt, decide).await
}

/// Releases by [`compare_and_swap`]: a swap that is not answered ends the call with its error.
///
/// The core repeats a release that was not answered, and the repeated one tells what the first one left. So no part of
/// the call's time has to be kept for a look.
///
/// # Errors
///
/// As of [`compare_and_swap`]. `Unavailable` with [`Effect::Unknown`] if a swap was not answered.
///
/// # Cancel safety
///
/// If the future is dropped, a swap may have been applied, or may still be.
pub async fn compare_and_release<R: Register, T>(
    call: &Call,
    register: &R,
    start: Start<R::Revision>,
    decide: impl FnMut(Option<&[u8]>, &R::Revision) -> Result<Decision<T>>,
) -> Result<Settled<R::Revision, T>> {
    swap_until_settled(call, register, start, Unanswered::IsAnError, decide).await
}

/// The consequence of a swap that is not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unanswered {
    /// A look tells whether it was applied. Time is kept for it.
    IsLookedAt,
    IsAnError,
}

async fn swap_until_settled<R: Register, T>(
    call: &Call,
    register: &R,
    start: Start<R::Revision>,
    unanswered: Unanswered,
    mut decide: impl FnMut(Option<&[u8]>, &R::Revision) -> Result<Decision<T>>,
) -> Result<Settled<R::Revision, T>> {
    let swaps_end = match unanswered {
        Unanswered::IsLookedAt => call.with_reserve(),
        Unanswered::IsAnError => call.clone(),
    };
    let mut known = match start {
        Start::Look => None,
        Start::Known { value, revision } => Some((Some(value), revision)),
    };
    let mut sent: Option<Sent<R::Revision>> = None;
    loop {
        let is_known = known.is_some();
        let seen = match known.take() {
            Some(known) => Ok(known),
            None => look(call, register).await,
        };
        let (value, revision) = match seen {
            Ok(seen) => seen,
            Err(error) => return Err(sent.and_then(Sent::unanswered).unwrap_or(error)),
        };
        if let Some(sent) = sent.take() {
            // Compared first: a renewal may write the value that was there.
            if sent.expected == revision {
                return Err(sent.error);
            }
            if value.as_ref() == Some(&sent.value) {
                return Ok(Settled::Written { value: sent.value, revision });
            }
        }
        let new = match decide(value.as_deref(), &revision)? {
            Decision::Write(new) => new,
            Decision::Leave(_) if is_known => continue,
            Decision::Leave(why) => return Ok(Settled::Left(why)),
        };
        if swaps_end.is_over() {
            return Err(call.out_of_time(Effect::NotApplied));
        }
        let error = match swaps_end.within(register.swap(&swaps_end, &revision, &new)).await {
            Some(Ok(Swapped::Applied(revision))) => return Ok(Settled::Written { value: new, revision }),
            Some(Ok(Swapped::Refused)) => refused_without_reason(),
            Some(Err(error)) if !error.may_have_taken_effect() => return Err(error),
            Some(Err(error)) => error,
            None => call.out_of_time(Effect::Unknown),
        };
        if unanswered == Unanswered::IsAnError && error.may_have_taken_effect() {
            return Err(error);
        }
        sent = Some(Sent { expected: revision, value: new, error });
    }
}

/// A swap that was not answered, or was refused. Some client libraries send a request again by themselves: then the
/// second one is refused because the first one was applied.
struct Sent<R> {
    expected: R,
    value: Vec<u8>,
    /// The error if the register has not changed since.
    error: Error,
}

impl<R> Sent<R> {
    /// Returns the error if it is not known whether the swap was applied.
    fn unanswered(self) -> Option<Error> {
        Some(self.error).filter(Error::may_have_taken_effect)
    }
}

async fn look<R: Register>(call: &Call, register: &R) -> Result<(Option<Vec<u8>>, R::Revision)> {
    match call.within(register.look(call)).await {
        Some(Err(error)) if error.may_have_taken_effect() => {
            // The server may have answered a question. That changes nothing.
            Err(Error::unavailable(Effect::NotApplied, error.message()).with_source(error))
        }
        Some(seen) => seen,
        None => Err(call.out_of_time(Effect::NotApplied)),
    }
}

fn refused_without_reason() -> Error {
    let what = "the server refused a write because of another one, and shows no other one: this read is an old state";
    Error::unavailable(Effect::NotApplied, what)
}

#[cfg(test)]
mod tests;
