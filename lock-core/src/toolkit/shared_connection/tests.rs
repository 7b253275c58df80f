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
    ends_with_the_call: AtomicBool,
}

impl Exchange {
    fn slot(takes: impl IntoIterator<Item = Duration>) -> SharedConnection<Exchange> {
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
    type Connection = Line;

    async fn connect(&self, call: &Call) -> Result<Line> {
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
async fn calls_end_in_time_while_the_opening_continues() {
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
async fn a_failed_opening_answers_current_and_next_callers() {
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
async fn a_longer_call_ignores_a_shorter_calls_timeout() {
    let (clock, slot) = (Clock::tokio(), Exchange::slot([ms(80), ms(80)]));
    slot.connector().ends_with_the_call.store(true, Ordering::SeqCst);
    let (short, long) = (Call::begin(&clock, ms(50)), Call::begin(&clock, ms(200)));
    let (first, second) = tokio::join!(slot.get(&short), slot.get(&long));
    assert!(first.is_err());
    assert_eq!((second.unwrap().number, slot.connector().begun()), (2, 2));
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
