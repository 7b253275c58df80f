//! A connection that is opened once for all calls that need it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::Call;
use crate::clock::Instant;
use crate::error::{Effect, Error, Result};

/// Opens the connections of a [`Slot`].
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// A connection, with all that has to be replaced together with it, such as a
    /// [`ServerClock`](super::ServerClock).
    type Connection: Send + Sync + 'static;

    /// Opens a connection, for `call` and for all calls that wait for it.
    ///
    /// It runs to its end in a task of its own, even if `call` is over before. It has to end by itself, at the end of
    /// `call` or after one patience, because no other connection is opened before.
    ///
    /// # Errors
    ///
    /// An `Unavailable` has [`Effect::NotApplied`]: nothing was asked of the server yet.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the slot runs it to completion, unless the runtime ends.
    async fn connect(&self, call: &Call) -> Result<Self::Connection>;

    /// Returns whether the connection can be used, as far as that is known without a request.
    fn is_usable(&self, connection: &Self::Connection) -> bool;

    /// Ends a connection that had become unusable, after another one has taken its place. By default, drops it.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: the slot runs it to completion, unless the runtime ends.
    async fn discard(&self, _connection: Arc<Self::Connection>) {}
}

/// The place of one connection, which all tasks of a client use.
///
/// The first call that finds the place empty opens the connection, and other calls wait for that. No call waits longer
/// than its own time. If the opening takes longer than all of them wait, the calls after them have the connection. If the
/// server can't be reached, the calls that wait, and those of the next 5 ms, have the same answer: a server that is down is
/// not asked for a connection by each call.
///
/// A task gives up the very connection that it found broken, and not the one that has taken its place in the meantime.
pub struct Slot<C: Connect>(Arc<Shared<C>>);

struct Shared<C: Connect> {
    connector: C,
    current: Mutex<Option<Arc<C::Connection>>>,
    /// Held while a connection is opened. It keeps how the last opening failed.
    turn: Arc<tokio::sync::Mutex<Option<Failure>>>,
}

/// An opening that has failed, because the server could not be reached or could not answer.
struct Failure {
    at: Instant,
    error: Error,
}

/// For how long a failed opening is the answer to further calls. Less than the shortest pause after an error, so that a
/// call that is repeated opens a connection.
const FAILURE_COUNTS: Duration = Duration::from_millis(5);

impl<C: Connect> Slot<C> {
    /// Makes an empty place. Opens nothing.
    pub fn new(connector: C) -> Slot<C> {
        Slot(Arc::new(Shared { connector, current: Mutex::default(), turn: Arc::default() }))
    }

    /// Returns what opens the connections.
    pub fn connector(&self) -> &C {
        &self.0.connector
    }

    /// Returns the connection if there is one that can be used. Opens none.
    pub fn usable(&self) -> Option<Arc<C::Connection>> {
        self.0.current().clone().filter(|connection| self.0.connector.is_usable(connection))
    }

    /// Returns the connection. Opens one if there is none that can be used.
    ///
    /// # Errors
    ///
    /// `Unavailable` with [`Effect::NotApplied`] if the call is over before the connection is open; otherwise the error
    /// of [`Connect::connect`]. An `Unavailable` is also the error of the calls that waited for this opening, and of those
    /// of the next 5 ms.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: an opening that has begun goes on.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn get(&self, call: &Call) -> Result<Arc<C::Connection>> {
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        let out_of_time = || call.out_of_time(Effect::NotApplied);
        if call.is_over() {
            return Err(out_of_time());
        }
        // On the heap: otherwise every call's future would reserve space for it, and almost none needs it.
        Box::pin(call.within(self.open(call))).await.unwrap_or_else(|| Err(out_of_time()))
    }

    /// Empties the place if this connection is in it. Returns whether it was.
    pub fn give_up(&self, connection: &Arc<C::Connection>) -> bool {
        self.0.current().take_if(|current| Arc::ptr_eq(current, connection)).is_some()
    }

    async fn open(&self, call: &Call) -> Result<Arc<C::Connection>> {
        let mut turn = self.0.turn.clone().lock_owned().await;
        // Another call opened it while this one waited for its turn.
        if let Some(connection) = self.usable() {
            return Ok(connection);
        }
        if let Some(failure) = turn.as_ref().filter(|failure| failure.counts_at(call.clock().now())) {
            return Err(failure.error.repeated());
        }
        let (shared, call) = (self.0.clone(), call.clone());
        let opening = tokio::spawn(async move {
            let opened = shared.open(&call).await;
            *turn = opened.as_ref().err().and_then(|error| Failure::new(call.clock().now(), error));
            opened
        });
        opening.await.unwrap_or_else(|e| {
            Err(Error::unavailable(Effect::NotApplied, "connecting ended early").with_source(e))
        })
    }
}

impl<C: Connect> Shared<C> {
    /// Opens a connection, and puts it into the place.
    async fn open(&self, call: &Call) -> Result<Arc<C::Connection>> {
        let opened = Arc::new(self.connector.connect(call).await?);
        let unusable = self.current().replace(opened.clone());
        if let Some(unusable) = unusable {
            self.connector.discard(unusable).await;
        }
        Ok(opened)
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<C::Connection>>> {
        // Nothing that can panic runs under this lock.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failure {
    /// `None` if the same call can't succeed later: each call is told so by the server itself.
    fn new(at: Instant, error: &Error) -> Option<Failure> {
        error.is_transient().then(|| Failure { at, error: error.repeated() })
    }

    fn counts_at(&self, now: Instant) -> bool {
        now < self.at + FAILURE_COUNTS
    }
}

impl<C: Connect> fmt::Debug for Slot<C> {
    /// Shows only whether there is a connection: what opens it may know a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("is_connected", &self.0.current().is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::clock::Clock;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[derive(Debug)]
    struct Line {
        number: usize,
        is_broken: AtomicBool,
    }

    /// Opens one line after the other, each as slowly as the script says. Without a script, opening fails.
    #[derive(Default)]
    struct Exchange {
        script: Mutex<VecDeque<Duration>>,
        begun: Mutex<usize>,
        discarded: Mutex<Vec<usize>>,
    }

    impl Exchange {
        fn slot(takes: impl IntoIterator<Item = Duration>) -> Slot<Exchange> {
            Slot::new(Exchange { script: Mutex::new(takes.into_iter().collect()), ..Exchange::default() })
        }

        fn begun(&self) -> usize {
            *self.begun.lock().unwrap()
        }
    }

    #[async_trait]
    impl Connect for Exchange {
        type Connection = Line;

        async fn connect(&self, call: &Call) -> Result<Line> {
            let number = {
                let mut begun = self.begun.lock().unwrap();
                *begun += 1;
                *begun
            };
            let takes = self.script.lock().unwrap().pop_front();
            let refused = || Error::unavailable(Effect::NotApplied, format!("refused: {number}"));
            call.clock().sleep(takes.ok_or_else(refused)?).await;
            Ok(Line { number, is_broken: AtomicBool::new(false) })
        }

        fn is_usable(&self, line: &Line) -> bool {
            !line.is_broken.load(Ordering::SeqCst)
        }

        async fn discard(&self, line: Arc<Line>) {
            self.discarded.lock().unwrap().push(line.number);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_opened_once_for_all_calls() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(50)]));
        assert!(slot.usable().is_none() && slot.connector().begun() == 0, "nothing is opened unasked");
        let call = Call::begin(&clock, ms(100));
        let (a, b, c) = tokio::join!(slot.get(&call), slot.get(&call), slot.get(&call));
        let [a, b, c] = [a, b, c].map(Result::unwrap);
        assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&b, &c));
        assert!(slot.usable().is_some_and(|usable| Arc::ptr_eq(&usable, &a)));
        assert_eq!((slot.connector().begun(), call.left()), (1, ms(50)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_call_waits_longer_than_its_time_and_the_opening_goes_on() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(150)]));
        let call = Call::begin(&clock, ms(100));
        let error = slot.get(&call).await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
        assert!(call.is_over() && slot.usable().is_none());
        let later = Call::begin(&clock, ms(100));
        assert_eq!(slot.get(&later).await.unwrap().number, 1, "opened for the call that has gone");
        assert_eq!((later.left(), slot.connector().begun()), (ms(50), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_time_opens_nothing() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(0)]));
        assert!(slot.get(&Call::begin(&clock, ms(0))).await.is_err());
        tokio::task::yield_now().await;
        assert_eq!(slot.connector().begun(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_does_not_stop_the_opening() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(50)]));
        let call = Call::begin(&clock, ms(100));
        assert!(clock.timeout(ms(10), slot.get(&call)).await.is_none(), "the caller drops the future");
        clock.sleep(ms(60)).await;
        assert_eq!(slot.usable().unwrap().number, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_opening_is_the_answer_of_those_that_wait_and_of_the_next_milliseconds() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([]));
        let call = Call::begin(&clock, ms(100));
        let refused = async || slot.get(&call).await.unwrap_err().message().to_owned();
        let (first, second) = tokio::join!(refused(), refused());
        assert_eq!([first, second], ["refused: 1", "refused: 1"]);
        clock.sleep(ms(4)).await;
        assert_eq!(refused().await, "refused: 1");
        clock.sleep(ms(1)).await;
        assert_eq!(refused().await, "refused: 2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_given_up_and_not_its_successor() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(0), ms(0)]));
        let call = Call::begin(&clock, ms(100));
        let first = slot.get(&call).await.unwrap();
        assert!(slot.give_up(&first) && !slot.give_up(&first), "it is given up once");
        let second = slot.get(&call).await.unwrap();
        assert_eq!(second.number, 2);
        assert!(!slot.give_up(&first), "another task found the same connection broken, later");
        assert!(slot.usable().is_some_and(|usable| Arc::ptr_eq(&usable, &second)));
        assert!(slot.connector().discarded.lock().unwrap().is_empty(), "the task that gave it up ends it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_broke_unnoticed_is_replaced_and_discarded() {
        let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(0), ms(0)]));
        let call = Call::begin(&clock, ms(100));
        slot.get(&call).await.unwrap().is_broken.store(true, Ordering::SeqCst);
        assert!(slot.usable().is_none());
        assert_eq!(slot.get(&call).await.unwrap().number, 2);
        assert_eq!(*slot.connector().discarded.lock().unwrap(), [1]);
    }
}
