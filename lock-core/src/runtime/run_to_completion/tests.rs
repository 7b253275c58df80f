//! Tests of a future that its caller polls, or a task.

use std::time::Duration;

use tokio::sync::mpsc;

use super::*;
use crate::clock::Clock;
use crate::wakes::Wakes;

/// Answers each question, after a few yields.
async fn echo(mut questions: mpsc::UnboundedReceiver<(u32, oneshot::Sender<u32>)>) {
    while let Some((question, reply)) = questions.recv().await {
        for _ in 0..question % 3 {
            tokio::task::yield_now().await;
        }
        let _: Result<(), u32> = reply.send(question);
    }
}

async fn ask(
    future: &Arc<RunToCompletion>,
    questions: &mpsc::UnboundedSender<(u32, oneshot::Sender<u32>)>,
    n: u32,
) -> u32 {
    let (reply, answer) = oneshot::channel();
    let send = || questions.send((n, reply)).map_err(drop).unwrap();
    future.answer(Caller::Here, send, answer).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_and_tasks_answer_every_question() {
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        askers.spawn(async {
            let (questions, asked) = mpsc::unbounded_channel();
            let future = RunToCompletion::new(&Handle::current(), echo(asked));
            for n in 0..5000 {
                if n % 7 == 0 {
                    // Asked and left: a spawned task polls the work, while the next caller already attends.
                    let _: Option<u32> =
                        Clock::system().timeout(Duration::ZERO, ask(&future, &questions, n)).await;
                }
                assert_eq!(ask(&future, &questions, n).await, n);
            }
        });
    }
    let done = async { while askers.join_next().await.transpose().unwrap().is_some() {} };
    Clock::system().timeout(Duration::from_secs(30), done).await.expect("no wake-up is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_its_caller_leaves_goes_on() {
    for polls in 1..6 {
        let (done, told) = oneshot::channel();
        let (reply, answer) = oneshot::channel::<()>();
        let future = RunToCompletion::new(&Handle::current(), async move {
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            let _: Result<(), ()> = reply.send(());
            Clock::system().sleep(Duration::from_millis(5)).await;
            done.send(()).unwrap();
        });
        let mut asking = Box::pin(future.answer(Caller::Here, || (), answer));
        for _ in 0..polls {
            let poll = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context))).await;
            if poll.is_ready() {
                break;
            }
        }
        drop(asking);
        Clock::system().timeout(Duration::from_secs(5), told).await.expect("it goes on").unwrap();
    }
}

/// A question that comes between the end of a visit and the drop of its task must not be taken for the end of the
/// runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_visit_that_ends_does_not_end_the_work() {
    let (questions, asked) = mpsc::unbounded_channel();
    let future = RunToCompletion::new(&Handle::current(), echo(asked));
    future.wake_by_ref();
    let asker = std::thread::spawn(move || {
        for n in 0..200_000 {
            let (reply, mut answer) = oneshot::channel();
            questions.send((3 * n, reply)).map_err(drop).expect("the work goes on");
            // Spins instead of parking: the next question has to come as soon as this one is answered.
            while answer.try_recv() == Err(TryRecvError::Empty) {
                std::hint::spin_loop();
            }
        }
    });
    tokio::task::spawn_blocking(|| asker.join()).await.unwrap().expect("every question was taken");
}

#[tokio::test]
async fn work_wakes_the_caller_that_has_polled_it_last() {
    let (go, waits) = oneshot::channel::<()>();
    let (_reply, answer) = oneshot::channel::<()>();
    let future = RunToCompletion::new(&Handle::current(), async move { drop(waits.await) });
    let mut asking = Box::pin(future.answer(Caller::Here, || (), answer));
    let wakes: [Arc<Wakes>; 3] = Default::default();
    for woken in &wakes {
        woken.poll(|context| asking.as_mut().poll(context));
    }
    go.send(()).unwrap();
    assert_eq!(wakes.each_ref().map(|woken| woken.count()), [0, 0, 1]);
}

#[test]
fn work_ends_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (reply, answer) = oneshot::channel();
    let (held, gone) = oneshot::channel::<()>();
    let future = runtime.block_on(async {
        let future = RunToCompletion::new(&Handle::current(), async move {
            let _: Result<(), ()> = reply.send(());
            Clock::system().sleep(Duration::from_secs(60)).await;
            drop(held);
        });
        future.answer(Caller::Here, || (), answer).await.unwrap();
        future
    });
    drop(runtime);
    assert!(gone.blocking_recv().is_err(), "what it owned is gone");
    drop(future);
}
