use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::clock::Clock;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[derive(Debug)]
struct FakeConnection {
    number: usize,
    is_broken: AtomicBool,
}

/// Opens one connection after the other, each as slowly as the script says. Without a script, opening fails.
#[derive(Default)]
struct Exchange {
    script: Mutex<VecDeque<Duration>>,
    begun: Mutex<usize>,
    discarded: Mutex<Vec<usize>>,
    ends_with_the_call: AtomicBool,
}

impl Exchange {
    fn shared(takes: impl IntoIterator<Item = Duration>) -> SharedConnection<Exchange> {
        SharedConnection::new(Exchange {
            script: Mutex::new(takes.into_iter().collect()),
            ..Exchange::default()
        })
    }

    fn begun(&self) -> usize {
        *self.begun.lock().unwrap()
    }
}

#[async_trait]
impl Connect for Exchange {
    type Connection = FakeConnection;

    async fn connect(&self, call: &Call) -> Result<FakeConnection> {
        let number = {
            let mut begun = self.begun.lock().unwrap();
            *begun += 1;
            *begun
        };
        let takes = self.script.lock().unwrap().pop_front();
        let refused = || Error::unavailable(Effect::NotApplied, format!("refused: {number}"));
        let takes = takes.ok_or_else(refused)?;
        let opening = call.clock().sleep(takes);
        match self.ends_with_the_call.load(Ordering::SeqCst) {
            true => call.within(opening).await.ok_or_else(|| call.out_of_time(Effect::NotApplied))?,
            false => opening.await,
        }
        Ok(FakeConnection { number, is_broken: AtomicBool::new(false) })
    }

    fn is_usable(&self, connection: &FakeConnection) -> bool {
        !connection.is_broken.load(Ordering::SeqCst)
    }

    async fn discard(&self, connection: Arc<FakeConnection>) {
        self.discarded.lock().unwrap().push(connection.number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_opened_once_for_all_calls() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(50)]));
    assert!(shared.usable().is_none() && shared.connector().begun() == 0, "nothing is opened unasked");
    let call = Call::begin(&clock, ms(100));
    let (a, b, c) = tokio::join!(shared.get(&call), shared.get(&call), shared.get(&call));
    let [a, b, c] = [a, b, c].map(Result::unwrap);
    assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&b, &c));
    assert!(shared.usable().is_some_and(|usable| Arc::ptr_eq(&usable, &a)));
    assert_eq!((shared.connector().begun(), call.left()), (1, ms(50)));
}

#[tokio::test(start_paused = true)]
async fn calls_end_in_time_while_the_opening_continues() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(150)]));
    let call = Call::begin(&clock, ms(100));
    let error = shared.get(&call).await.unwrap_err();
    assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
    assert!(call.is_over() && shared.usable().is_none());
    let later = Call::begin(&clock, ms(100));
    assert_eq!(shared.get(&later).await.unwrap().number, 1, "opened for the call that has gone");
    assert_eq!((later.left(), shared.connector().begun()), (ms(50), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_time_opens_nothing() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(0)]));
    assert!(shared.get(&Call::begin(&clock, ms(0))).await.is_err());
    tokio::task::yield_now().await;
    assert_eq!(shared.connector().begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_does_not_stop_the_opening() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(50)]));
    let call = Call::begin(&clock, ms(100));
    assert!(clock.timeout(ms(10), shared.get(&call)).await.is_none(), "the caller drops the future");
    clock.sleep(ms(60)).await;
    assert_eq!(shared.usable().unwrap().number, 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_opening_answers_current_and_next_callers() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([]));
    let call = Call::begin(&clock, ms(100));
    let refused = async || shared.get(&call).await.unwrap_err().message().to_owned();
    let (first, second) = tokio::join!(refused(), refused());
    assert_eq!([first, second], ["refused: 1", "refused: 1"]);
    clock.sleep(ms(4)).await;
    assert_eq!(refused().await, "refused: 1");
    clock.sleep(ms(1)).await;
    assert_eq!(refused().await, "refused: 2");
}

#[tokio::test(start_paused = true)]
async fn a_longer_call_ignores_a_shorter_calls_timeout() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(80), ms(80)]));
    shared.connector().ends_with_the_call.store(true, Ordering::SeqCst);
    let (short, long) = (Call::begin(&clock, ms(50)), Call::begin(&clock, ms(200)));
    let (first, second) = tokio::join!(shared.get(&short), shared.get(&long));
    assert!(first.is_err());
    assert_eq!((second.unwrap().number, shared.connector().begun()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_given_up_and_not_its_successor() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(0), ms(0)]));
    let call = Call::begin(&clock, ms(100));
    let first = shared.get(&call).await.unwrap();
    assert!(shared.give_up(&first) && !shared.give_up(&first), "it is given up once");
    let second = shared.get(&call).await.unwrap();
    assert_eq!(second.number, 2);
    assert!(!shared.give_up(&first), "another task found the same connection broken, later");
    assert!(shared.usable().is_some_and(|usable| Arc::ptr_eq(&usable, &second)));
    assert!(shared.connector().discarded.lock().unwrap().is_empty(), "the task that gave it up ends it");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_broke_unnoticed_is_replaced_and_discarded() {
    let (clock, shared) = (Clock::tokio(), Exchange::shared([ms(0), ms(0)]));
    let call = Call::begin(&clock, ms(100));
    shared.get(&call).await.unwrap().is_broken.store(true, Ordering::SeqCst);
    assert!(shared.usable().is_none());
    assert_eq!(shared.get(&call).await.unwrap().number, 2);
    assert_eq!(*shared.connector().discarded.lock().unwrap(), [1]);
}
