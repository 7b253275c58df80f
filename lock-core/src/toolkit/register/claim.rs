//! One owner's calls on one key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Server;
use super::connection::of_unknown_effect;
use super::key::{Precision, Seen, parse};
use super::registers::Registers;
use super::row::Row;
use crate::driver::{Attempt, Busy, Claim, Grant, Release, Renewal, Request, Watched};
use crate::ending::LossReason;
use crate::error::{Effect, Error, Result};
use crate::period::UnixTime;
use crate::token::FencingToken;
use crate::toolkit::{
    Call, Decision, Notice, Settled, Start, Subscription, compare_and_release, compare_and_swap, whole_micros,
};

#[derive(Debug)]
pub(super) struct RegisterClaim<R: Registers> {
    server: Arc<Server<R>>,
    key: String,
    /// The owner as rows have it.
    owner: String,
    request: Request,
    /// The last write of this owner, and nothing after a call that failed: a write of that call may have replaced it,
    /// or still may.
    known: Option<(Row, Seen<R::Revision>)>,
    /// A release was done and may not have been announced.
    is_untold: bool,
    /// For a release while it waits, for a revoke while it holds.
    listening: Option<Subscription>,
}

/// Why nothing was written.
#[derive(Debug)]
enum Left {
    Busy(Busy),
    Lost(LossReason),
    NotHeld,
    /// The bounds of the lease have to be known better.
    Vague,
}

/// The number of times that a call may look and write: once by the estimate, and then by the time that the server
/// tells.
const ROUNDS: u32 = 3;

#[async_trait]
impl<R: Registers> Claim for RegisterClaim<R> {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        self.known = None;
        let mut precision = Precision::Estimated;
        for _ in 0..ROUNDS {
            let key = self.server.key(&self.key, precision);
            let take = |value: Option<&[u8]>, seen: &Seen<R::Revision>| self.take(value, seen);
            match compare_and_swap(&call, &key, Start::Look, take).await? {
                Settled::Left(Left::Busy(busy)) => return Ok(Attempt::Busy(busy)),
                Settled::Left(_) => {}
                Settled::Written { value, revision: seen } => {
                    let row = Row::parse(&value)?;
                    if !row.is_void(&seen.mark()) {
                        let grant = grant(&row, &seen);
                        (self.known, self.listening) = (Some((row, seen)), None);
                        return Ok(Attempt::Granted(grant));
                    }
                }
            }
            precision = Precision::Asked;
        }
        Err(Error::unavailable(Effect::NotApplied, "the attempt came to the server too late, and is void"))
    }

    async fn listen(&mut self) -> Result<()> {
        let registers = &self.server.registers;
        self.listening = Some(registers.listen(&self.request.name, &self.call()).await?);
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
    }

    async fn watch(&mut self) -> Result<Watched> {
        let registers = &self.server.registers;
        self.listening = Some(registers.watch(self.request.owner, &self.call()).await?);
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let (call, lease) = (self.call(), whole_micros(ttl));
        let (mut start, mut precision) = self.start_of_renewal(&call, lease);
        for _ in 0..ROUNDS {
            let key = self.server.key(&self.key, precision);
            let keep = |value: Option<&[u8]>, seen: &Seen<R::Revision>| self.keep(value, seen, lease);
            match compare_and_swap(&call, &key, start, keep).await? {
                Settled::Left(Left::Lost(reason)) => return Ok(Renewal::Lost(reason)),
                Settled::Left(_) => {}
                Settled::Written { value, revision: seen } => {
                    let row = Row::parse(&value)?;
                    if row.is_void(&seen.mark()) {
                        return Ok(Renewal::Lost(LossReason::Gone));
                    }
                    let valid_for = row.valid_for(seen.times.began);
                    self.known = Some((row, seen));
                    return Ok(Renewal::Held { valid_for, age: Duration::ZERO });
                }
            }
            (start, precision) = (Start::Look, Precision::Asked);
        }
        Err(Error::unavailable(Effect::NotApplied, "the server did not tell its time"))
    }

    async fn release(&mut self) -> Result<Release> {
        let call = self.call();
        let known = self.known.take();
        if self.is_untold {
            return self.tell_release(&call).await;
        }
        let key = self.server.key(&self.key, Precision::Estimated);
        let start = known.map_or(Start::Look, |(row, seen)| key.start(&call, &row, &seen));
        let mut ends = i64::MAX;
        let give_up = |value: Option<&[u8]>, seen: &Seen<R::Revision>| {
            let row = seen.in_force(parse(value)?).filter(|row| row.is_given_up_by(&self.owner));
            let Some(row) = row else { return Ok(Decision::Leave(Left::NotHeld)) };
            ends = row.ends(&seen.mark()).by;
            Ok(Decision::Write(row.released(&seen.mark(), self.request.owner).to_bytes()))
        };
        match compare_and_release(&call, &key, start, give_up).await? {
            // The server's clock was set forward: the lease was over, and no other owner has taken the lock.
            Settled::Written { revision: seen, .. } if seen.mark().stamp >= ends => Ok(Release::NotHeld),
            Settled::Written { .. } => {
                self.is_untold = true;
                self.tell_release(&call).await
            }
            Settled::Left(_) => Ok(Release::NotHeld),
        }
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        let Some(epoch) = R::EPOCH else {
            return Err(Error::unsupported(
                "this server's times don't count from a known moment, so it can't keep locks once per period",
            ));
        };
        let call = self.call();
        let told = self.server.connection.get(&call).await?.ask_time(&call).await?;
        // At a moment before the question, the estimate is what the server told.
        Ok(UnixTime::from_micros(told.at(call.began()).saturating_sub(epoch)))
    }
}

fn grant<V>(row: &Row, seen: &Seen<V>) -> Grant {
    // A grant's token is more than the one before it, and those that follow keep it.
    let token = FencingToken::new(row.token(&seen.mark()).max(1)).expect("at least one");
    Grant::new(token, row.valid_for(seen.times.began))
}

impl<R: Registers> RegisterClaim<R> {
    pub(super) fn new(server: Arc<Server<R>>, request: Request) -> RegisterClaim<R> {
        let (key, owner) = (server.registers.key(&request.name), request.owner.to_string());
        RegisterClaim { server, key, owner, request, known: None, is_untold: false, listening: None }
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    /// Returns how a renewal starts: from this owner's last write, if the estimate of the time is good enough for it.
    fn start_of_renewal(&mut self, call: &Call, lease: i64) -> (Start<Seen<R::Revision>>, Precision) {
        let known = self.known.take();
        let key = self.server.key(&self.key, Precision::Estimated);
        match known {
            Some((row, seen)) if row.outlasts(&seen.mark(), lease) => (Start::Look, Precision::Asked),
            // An old estimate would not show that the server's clock was set.
            Some((row, seen)) if key.has_the_time(call) => {
                (key.start(call, &row, &seen), Precision::Estimated)
            }
            _ => (Start::Look, Precision::Estimated),
        }
    }

    /// Decides what an attempt writes.
    fn take(&self, value: Option<&[u8]>, seen: &Seen<R::Revision>) -> Result<Decision<Left>> {
        let (last, mark) = (parse(value)?, seen.mark());
        let Request { owner, ttl, label, .. } = &self.request;
        let lease = whole_micros(*ttl);
        Ok(match seen.in_force(last.clone()) {
            Some(row) if row.is_of(&self.owner) => prolong(&row, seen, lease),
            Some(row) => {
                let busy = Busy::default().with_free_in(row.left(&mark, seen.times.now));
                Decision::Leave(Left::Busy(busy.with_holder(row.entry(&mark, seen.times.now))))
            }
            None => {
                let last = last.as_ref().map(|row| (row, &mark));
                Decision::Write(Row::granted(last, *owner, label, lease, seen.times.deadline).to_bytes())
            }
        })
    }

    /// Decides what a renewal writes.
    fn keep(&self, value: Option<&[u8]>, seen: &Seen<R::Revision>, lease: i64) -> Result<Decision<Left>> {
        let last = parse(value)?;
        let was_revoked = last.as_ref().is_some_and(|row| row.is_revoked_from(&self.owner));
        Ok(match seen.in_force(last) {
            Some(row) if row.is_of(&self.owner) => prolong(&row, seen, lease),
            _ if was_revoked => Decision::Leave(Left::Lost(LossReason::Revoked)),
            Some(_) => Decision::Leave(Left::Lost(LossReason::Taken)),
            None => Decision::Leave(Left::Lost(LossReason::Gone)),
        })
    }

    /// Notifies the waiters of a release that was done.
    async fn tell_release(&mut self, call: &Call) -> Result<Release> {
        let notice = Notice::Released(self.request.name.to_string());
        self.server.tell(call, &notice).await.map_err(of_unknown_effect)?;
        self.is_untold = false;
        Ok(Release::Released { others: None })
    }
}

/// Keeps a row of this owner. What is left of a longer lease is told by the server's own time only.
fn prolong<V>(row: &Row, seen: &Seen<V>, lease: i64) -> Decision<Left> {
    match row.outlasts(&seen.mark(), lease) && seen.precision == Precision::Estimated {
        true => Decision::Leave(Left::Vague),
        false => Decision::Write(row.renewed(&seen.mark(), lease).to_bytes()),
    }
}
