//! The tie between a claim and its guard: what the claim tells, and what the guard asks for.
//!
//! It is one small allocation, because every held lock has one. A channel for each direction takes four times
//! the memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::task::coop::cooperative;

use super::order::Command;
use super::validity::Validity;

/// The claim's end of the link, which tells the guard until when its lock is certain. When it is dropped, no
/// claim keeps the lock any more.
#[derive(Debug)]
pub(super) struct ClaimEnd(Arc<GuardLink>);

/// The guard's commands to its claim. When they are dropped, no command is answered any more, and the guard
/// can't send any.
#[derive(Debug)]
pub(super) struct Commands(Arc<GuardLink>);

/// The guard's end of the tie. When it is dropped, the claim releases the lock.
#[derive(Debug)]
pub(crate) struct GuardEnd(Arc<GuardLink>);

#[derive(Debug)]
struct GuardLink {
    state: Mutex<State>,
    /// Notified when the claim has told something.
    change: Notify,
}

#[derive(Debug)]
struct State {
    validity: Validity,
    claim: End,
    guard: End,
    /// A user has had the guard.
    handed_over: bool,
    commands: VecDeque<Command>,
    /// The end that reads commands: the claim's.
    takes_orders: End,
    /// Wakes the claim that waits for a command.
    waits: Option<Waker>,
}

/// The state of one end of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    There,
    Gone,
}

impl ClaimEnd {
    pub(super) fn new(validity: Validity) -> ClaimEnd {
        let (there, handed_over, commands) = (End::There, false, VecDeque::new());
        let state = State {
            validity,
            claim: there,
            guard: there,
            handed_over,
            commands,
            takes_orders: there,
            waits: None,
        };
        ClaimEnd(Arc::new(GuardLink { state: Mutex::new(state), change: Notify::new() }))
    }

    /// Returns the other ends, for the claim and its one guard.
    pub(super) fn ends(&self) -> (Commands, GuardEnd) {
        (Commands(self.0.clone()), GuardEnd(self.0.clone()))
    }

    /// Returns what was told last.
    pub(super) fn validity(&self) -> Validity {
        self.0.state().validity
    }

    pub(super) fn notify(&self, validity: Validity) {
        self.0.state().validity = validity;
        self.0.change.notify_waiters();
    }
}

impl Drop for ClaimEnd {
    fn drop(&mut self) {
        self.0.state().claim = End::Gone;
        self.0.change.notify_waiters();
    }
}

impl Commands {
    /// Waits for the next order; `None` if the guard is gone. Cancel safe.
    ///
    /// Counts against the budget of its task, as tokio's channels do: a task that takes and releases locks in
    /// memory all the time must not keep others of its thread from running.
    pub(super) async fn next(&mut self) -> Option<Command> {
        cooperative(poll_fn(|context| self.poll_next(context))).await
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Command>> {
        let mut state = self.0.state();
        match (state.commands.pop_front(), state.guard) {
            (None, End::There) => {}
            (order, _) => return Poll::Ready(order),
        }
        if !state.waits.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            let before = state.waits.replace(context.waker().clone());
            drop(state);
            drop(before);
        }
        Poll::Pending
    }

    /// Returns whether a user has had the guard. It does not count if the caller went away, or got only some of several
    /// locks.
    pub(super) fn guard_was_handed_over(&self) -> bool {
        self.0.state().handed_over
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.takes_orders = End::Gone;
        let (unread, waits) = (std::mem::take(&mut state.commands), state.waits.take());
        drop(state);
        // Not under the lock: a caller that waits for an answer is woken.
        drop((unread, waits));
    }
}

/// The claim does not read commands any more.
#[derive(Debug)]
pub(crate) struct NotTaken;

impl GuardEnd {
    /// Asks the claim. A command that is not read is dropped, and with it what its answer was to be sent to.
    pub(crate) fn ask(&self, command: Command) -> Result<(), NotTaken> {
        let mut state = self.0.state();
        if state.takes_orders == End::Gone {
            drop(state);
            drop(command);
            return Err(NotTaken);
        }
        state.commands.push_back(command);
        let waits = state.waits.take();
        drop(state);
        if let Some(claim) = waits {
            claim.wake();
        }
        Ok(())
    }

    /// Returns what the claim has told last.
    pub(crate) fn validity(&self) -> Validity {
        self.0.state().validity
    }

    /// Returns whether no claim keeps the lock any more.
    pub(crate) fn is_cut(&self) -> bool {
        self.0.state().claim == End::Gone
    }

    /// Resolves when the claim has told something since this call. Cancel safe.
    pub(crate) fn notified(&self) -> impl Future<Output = ()> {
        self.0.change.notified()
    }

    /// Marks that a user has the guard.
    pub(crate) fn mark_handed_over(&self) {
        self.0.state().handed_over = true;
    }
}

impl Drop for GuardEnd {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.guard = End::Gone;
        let waits = state.waits.take();
        drop(state);
        if let Some(claim) = waits {
            claim.wake();
        }
    }
}

impl GuardLink {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::Instant;
    use crate::ending::LossReason;
    use crate::wakes::Wakes;

    fn valid_until(secs: u64) -> Validity {
        Validity::new(Instant::from_origin(Duration::from_secs(secs)), None)
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn commands_arrive_in_order_before_the_guards_end() {
        let claim_end = ClaimEnd::new(valid_until(1));
        let (mut commands, guard_end) = claim_end.ends();
        for _ in 0..2 {
            let (asker, _) = oneshot::channel();
            guard_end.ask(Command::Release(asker)).unwrap();
        }
        drop(guard_end);
        for _ in 0..2 {
            assert!(matches!(commands.next().await, Some(Command::Release(_))));
        }
        assert!(commands.next().await.is_none());
    }

    #[tokio::test]
    async fn commands_and_the_guards_end_wake_the_claim() {
        let claim_end = ClaimEnd::new(valid_until(1));
        let (mut commands, guard_end) = claim_end.ends();
        let claim =
            tokio::spawn(async move { (commands.next().await.is_some(), commands.next().await.is_none()) });
        tokio::task::yield_now().await;
        let (asker, _) = oneshot::channel();
        guard_end.ask(Command::Complete(asker)).unwrap();
        tokio::task::yield_now().await;
        drop(guard_end);
        assert_eq!(claim.await.unwrap(), (true, true));
    }

    #[test]
    fn a_command_wakes_the_claims_last_poller() {
        let claim_end = ClaimEnd::new(valid_until(1));
        let (mut commands, guard_end) = claim_end.ends();
        let wakes: [Arc<Wakes>; 3] = Default::default();
        let mut next = pin!(commands.next());
        for woken in &wakes {
            woken.poll(|context| next.as_mut().poll(context));
        }
        drop(guard_end);
        assert_eq!(wakes.each_ref().map(|woken| woken.count()), [0, 0, 1]);
    }

    #[tokio::test]
    async fn an_unread_command_gets_its_channels_end() {
        let claim_end = ClaimEnd::new(valid_until(1));
        let (commands, guard_end) = claim_end.ends();
        let (asker, answer) = oneshot::channel();
        guard_end.ask(Command::Release(asker)).unwrap();
        drop(commands);
        assert!(answer.await.is_err());
        let (asker, answer) = oneshot::channel();
        assert!(guard_end.ask(Command::Release(asker)).is_err());
        assert!(answer.await.is_err());
    }

    #[test]
    fn the_guard_learns_the_claims_report_and_its_end() {
        let claim_end = ClaimEnd::new(valid_until(1));
        let (_orders, guard_end) = claim_end.ends();
        let told = || Box::pin(guard_end.notified());
        let (mut first, mut second) = (told(), told());
        assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        claim_end.notify(Validity { lost: Some(LossReason::Revoked), ..valid_until(2) });
        assert!(poll(first.as_mut()).is_ready() && poll(second.as_mut()).is_ready());
        assert_eq!(guard_end.validity().valid_until, valid_until(2).valid_until);
        let mut end = told();
        assert!(!guard_end.is_cut() && poll(end.as_mut()).is_pending());
        drop(claim_end);
        assert!(guard_end.is_cut() && poll(end.as_mut()).is_ready());
        assert_eq!(guard_end.validity().lost, Some(LossReason::Revoked), "what was lost keeps its reason");
    }
}
