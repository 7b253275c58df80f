//! Tests of the pool, with a scripted server.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use lock_core::toolkit::{Call, whole_micros};
use lock_core::{Clock, Effect, Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::{Answer, Dialect, LockWait, Moment, Opened, Pool, Purpose, Trouble};

/// A scripted server, whose clock is not the client's.
#[derive(Clone, Debug)]
struct Scripted(Arc<State>);

#[derive(Debug)]
struct State {
    clock: Clock,
    opened: AtomicU32,
    /// If set, the next connection opens only after this notification.
    opening: Mutex<Option<Arc<Notify>>>,
    steps: Mutex<VecDeque<Step>>,
    /// Answers contain the server's time.
    tells_time: AtomicBool,
    deadlines: Mutex<Vec<i64>>,
}

/// The server's reaction to a statement. Without a step it answers at once.
#[derive(Debug)]
enum Step {
    /// The server reads its clock at once, and the answer takes this long.
    Slow(Duration),
    /// The server answers after this notification.
    When(Arc<Notify>),
    /// The driver panics after this notification.
    Panics(Arc<Notify>),
    Undone,
    Refused,
    Broken,
}

/// The time by which the server clock is ahead of the client's, in microseconds.
const AHEAD: i64 = 3_600_000_000;

impl Scripted {
    fn new() -> Scripted {
        Scripted(Arc::new(State {
            clock: Clock::system(),
            opened: AtomicU32::new(0),
            opening: Mutex::default(),
            steps: Mutex::default(),
            tells_time: AtomicBool::new(true),
            deadlines: Mutex::default(),
        }))
    }

    fn does(&self, steps: impl IntoIterator<Item = Step>) {
        self.0.steps.lock().unwrap().extend(steps);
    }

    fn opened(&self) -> u32 {
        self.0.opened.load(Ordering::SeqCst)
    }

    /// Returns the number of statements that have arrived.
    fn asked(&self) -> usize {
        self.0.deadlines.lock().unwrap().len()
    }

    fn now(&self) -> i64 {
        whole_micros(self.0.clock.now().since_origin()) + AHEAD
    }
}

/// Asks for a row that another transaction has locked, for as long as the test lasts.
const LOCKED: i64 = i64::MIN;

impl Dialect for Scripted {
    type Connection = (Scripted, LockWait);
    type Statement = i64;
    type Row = ();

    async fn connect(&self, lock_wait: LockWait) -> Result<Opened<(Scripted, LockWait)>> {
        let opening = self.0.opening.lock().unwrap().take();
        if let Some(told) = opening {
            told.notified().await;
        }
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Opened { connection: (self.clone(), lock_wait), now: self.now() })
    }

    async fn run((server, lock_wait): &mut (Scripted, LockWait), deadline: i64) -> sqlx::Result<Answer<()>> {
        if deadline == LOCKED {
            if *lock_wait == LockWait::Bounded {
                std::future::pending::<()>().await;
            }
            return Err(sqlx::Error::Protocol("undone".to_owned()));
        }
        server.0.deadlines.lock().unwrap().push(deadline);
        let step = server.0.steps.lock().unwrap().pop_front();
        let now = server.0.tells_time.load(Ordering::SeqCst).then(|| server.now());
        let error = |how: &str| Err(sqlx::Error::Protocol(how.to_owned()));
        match step {
            None => {}
            Some(Step::Slow(takes)) => server.0.clock.sleep(takes).await,
            Some(Step::When(told)) => told.notified().await,
            Some(Step::Panics(told)) => {
                told.notified().await;
                panic!("as planned");
            }
            Some(Step::Undone) => return error("undone"),
            Some(Step::Refused) => return error("refused"),
            Some(Step::Broken) => return error("broken"),
        }
        Ok(Answer { rows: Vec::new(), last_insert_id: 0, now })
    }

    fn trouble(error: sqlx::Error) -> Trouble {
        let told = Error::unavailable(Effect::Unknown, error.to_string());
        match error.to_string() {
            text if text.contains("undone") => Trouble::Undone(Error::unavailable(Effect::NotApplied, text)),
            text if text.contains("refused") => Trouble::Refused(told),
            _ => Trouble::Broken(told),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(5);

fn pool(connections: usize) -> (Scripted, Pool<Scripted>) {
    let server = Scripted::new();
    (server.clone(), Pool::new(server, connections, PATIENCE))
}

async fn ask(server: &Scripted, pool: &Pool<Scripted>, purpose: Purpose, patience: Duration) -> Result<()> {
    let call = Call::begin(&server.0.clock, patience);
    pool.ask(&call, purpose, |moment: Moment| moment.deadline).await.map(drop)
}

/// Polls a future once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn one_connection_is_kept_for_renewals() {
    let (server, pool) = pool(2);
    let told = Arc::new(Notify::new());
    server.does([Step::When(told.clone())]);
    let (own, acquiring) = (server.clone(), pool.clone());
    let first = tokio::spawn(async move { ask(&own, &acquiring, Purpose::Acquire, PATIENCE * 4).await });
    while server.asked() == 0 {
        tokio::task::yield_now().await;
    }
    let error = ask(&server, &pool, Purpose::Acquire, ms(50)).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Unavailable { effect: Effect::NotApplied },
        "nothing was asked: {error:?}"
    );
    ask(&server, &pool, Purpose::Maintain, PATIENCE).await.unwrap();
    told.notify_one();
    first.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_is_put_aside_keeps_no_connection() {
    let (server, pool) = pool(2);
    let mut put_aside = pin!(ask(&server, &pool, Purpose::Acquire, PATIENCE));
    assert!(poll_once(put_aside.as_mut()).await.is_pending());
    // There is one connection for both.
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    assert_eq!((server.opened(), server.asked()), (1, 2));
    put_aside.await.unwrap();
}

#[tokio::test]
async fn a_prompt_connection_lets_others_go_on() {
    let (server, pool) = pool(2);
    let mut asked: Vec<_> =
        (0..5).map(|_| Box::pin(ask(&server, &pool, Purpose::Acquire, PATIENCE))).collect();
    for ask in &mut asked {
        assert!(poll_once(ask.as_mut()).await.is_pending());
    }
    let other = server.clone();
    let others_turns = tokio::spawn(async move {
        let mut seen = Vec::new();
        while other.asked() < 5 {
            seen.push(other.asked());
            tokio::task::yield_now().await;
        }
        seen
    });
    for ask in asked {
        ask.await.unwrap();
    }
    let seen = others_turns.await.unwrap();
    let between = seen.iter().filter(|asked| **asked > 0).count();
    assert!(between >= 4, "it has a turn for each: {seen:?}");
}

#[tokio::test]
async fn an_abandoned_queued_request_is_not_sent() {
    let (server, pool) = pool(2);
    let told = Arc::new(Notify::new());
    server.does([Step::When(told.clone())]);
    let mut sent = pin!(ask(&server, &pool, Purpose::Acquire, PATIENCE));
    assert!(poll_once(sent.as_mut()).await.is_pending());
    let mut in_line = Box::pin(ask(&server, &pool, Purpose::Acquire, PATIENCE));
    assert!(poll_once(in_line.as_mut()).await.is_pending());
    drop(in_line);
    told.notify_one();
    sent.await.unwrap();
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn a_drivers_panic_passes_the_connection_on() {
    let (server, pool) = pool(2);
    let told = Arc::new(Notify::new());
    server.does([Step::Panics(told.clone())]);
    let mut panics = pin!(ask(&server, &pool, Purpose::Acquire, PATIENCE));
    assert!(poll_once(panics.as_mut()).await.is_pending());
    let mut in_line = pin!(ask(&server, &pool, Purpose::Acquire, PATIENCE));
    assert!(poll_once(in_line.as_mut()).await.is_pending());
    told.notify_one();
    assert!(panics.await.unwrap_err().may_have_taken_effect());
    in_line.await.unwrap();
}

#[tokio::test]
async fn no_task_outlives_the_pool() {
    let (server, pool) = pool(3);
    let ask = || ask(&server, &pool, Purpose::Maintain, PATIENCE);
    let (one, other) = tokio::join!(ask(), ask());
    assert!(one.is_ok() && other.is_ok());
    let tasks = || Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 2, "each connection has a task, which rests");
    ask().await.unwrap();
    assert_eq!(tasks(), 2, "a task that rests is used again");
    drop(pool);
    while tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_break_clears_idle_connections_but_refusals_none() {
    let (server, pool) = pool(4);
    server.does([Step::Slow(ms(50)), Step::Slow(ms(50))]);
    let (one, other) = tokio::join!(
        ask(&server, &pool, Purpose::Maintain, PATIENCE),
        ask(&server, &pool, Purpose::Maintain, PATIENCE)
    );
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(server.opened(), 2);
    server.does([Step::Refused]);
    ask(&server, &pool, Purpose::Maintain, PATIENCE).await.unwrap_err();
    ask(&server, &pool, Purpose::Maintain, PATIENCE).await.unwrap();
    assert_eq!(server.opened(), 2);
    server.does([Step::Broken]);
    let error = ask(&server, &pool, Purpose::Maintain, PATIENCE).await.unwrap_err();
    assert!(error.may_have_taken_effect());
    ask(&server, &pool, Purpose::Maintain, PATIENCE).await.unwrap();
    assert_eq!(server.opened(), 3);
}

#[tokio::test]
async fn an_undone_statement_is_retried_until_the_call_ends() {
    let (server, pool) = pool(2);
    server.does([Step::Undone, Step::Undone, Step::Undone]);
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    assert_eq!(server.asked(), 4);
    server.does((0..).map(|_| Step::Undone).take(1_000_000));
    let error = ask(&server, &pool, Purpose::Acquire, ms(20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
}

// Proves: busy-names
/// Rows that others have locked, more than there are connections, for either purpose.
#[tokio::test]
async fn any_number_of_locked_rows_delays_no_other_request() {
    let (server, pool) = pool(8);
    let call = Call::begin(&server.0.clock, PATIENCE);
    let mut locked: Vec<_> = [Purpose::Acquire, Purpose::Maintain]
        .into_iter()
        .flat_map(|purpose| (0..40).map(move |_| purpose))
        .map(|purpose| Box::pin(pool.ask(&call, purpose, |_| LOCKED)))
        .collect();
    for _ in 0..20 {
        for ask in &mut locked {
            assert!(poll_once(ask.as_mut()).await.is_pending());
        }
        for purpose in [Purpose::Acquire, Purpose::Maintain] {
            ask(&server, &pool, purpose, PATIENCE / 5).await.expect("its row is free");
        }
    }
}

#[tokio::test]
async fn a_slow_connection_serves_the_next_call() {
    let (server, pool) = pool(2);
    let told = Arc::new(Notify::new());
    *server.0.opening.lock().unwrap() = Some(told.clone());
    // A call that was over before it began to connect doesn't count.
    while server.0.opening.lock().unwrap().is_some() {
        let error = ask(&server, &pool, Purpose::Acquire, ms(20)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
    }
    told.notify_one();
    while server.opened() == 0 {
        server.0.clock.sleep(ms(5)).await;
    }
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    assert_eq!(server.opened(), 1);
}

#[tokio::test]
async fn no_deadline_lies_beyond_the_end_of_the_patience() {
    let (server, pool) = pool(2);
    let mut before = None;
    for slow in [ms(0), ms(80), ms(0), ms(0)] {
        server.does([Step::Slow(slow)]);
        let began = server.0.clock.now();
        let call = Call::begin(&server.0.clock, PATIENCE);
        let end = whole_micros(call.ends().since_origin()) + AHEAD;
        pool.ask(&call, Purpose::Acquire, |moment: Moment| moment.deadline).await.unwrap();
        let deadline = *server.0.deadlines.lock().unwrap().last().unwrap();
        // Rounded up to a microsecond on either side.
        assert!(deadline <= end + 2, "{} us beyond the end", deadline - end);
        // The server clock was read during the previous call (the first call reads it while it connects), and may have
        // drifted since.
        let this = (began, server.0.clock.now().since(began));
        let (read, ran) = before.replace(this).unwrap_or(this);
        let most = whole_micros(ran + call.ends().since(read) / 100) + 2;
        assert!(end - deadline <= most, "{} us before the end, more than {most}", end - deadline);
    }
}

/// The two clocks may go at rates that differ by 1 %.
#[tokio::test]
async fn an_old_estimate_makes_a_deadline_earlier() {
    let (server, pool) = pool(2);
    server.0.tells_time.store(false, Ordering::SeqCst);
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    for old in [ms(300), ms(600)] {
        server.0.clock.sleep(ms(300)).await;
        let call = Call::begin(&server.0.clock, PATIENCE);
        let end = whole_micros(call.ends().since_origin()) + AHEAD;
        pool.ask(&call, Purpose::Acquire, |moment: Moment| moment.deadline).await.unwrap();
        let deadline = *server.0.deadlines.lock().unwrap().last().unwrap();
        assert!(
            end - deadline >= whole_micros((old + PATIENCE) / 100),
            "{} us before the end",
            end - deadline
        );
    }
}

#[tokio::test]
async fn an_unanswered_call_ends_and_its_connection_is_reused() {
    let (server, pool) = pool(2);
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    let (told, before) = (Arc::new(Notify::new()), server.asked());
    server.does([Step::When(told.clone())]);
    let mut outcome = Ok(());
    // A call that was over before it sent its statement doesn't count.
    while server.asked() == before {
        outcome = ask(&server, &pool, Purpose::Acquire, ms(30)).await;
    }
    let error = outcome.unwrap_err();
    assert!(error.may_have_taken_effect(), "{error:?}");
    told.notify_one();
    // The next call waits for the answer that the first caller no longer waits for.
    ask(&server, &pool, Purpose::Acquire, PATIENCE).await.unwrap();
    assert_eq!(server.opened(), 1);
}
