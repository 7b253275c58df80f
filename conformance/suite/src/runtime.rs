//! The runtime of a case.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// Runs a future on a runtime of its own, as each case has it.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    block_on_and_end("beside the cases", future).0
}

/// Also returns whether everything that was left in the runtime could be ended. A task that waits for something can be
/// ended; one that blocks a thread cannot.
pub(crate) fn block_on_and_end<T>(
    threads: &str,
    future: impl Future<Output = T>,
) -> (T, Result<(), Failure>) {
    const LONGEST: Duration = Duration::from_secs(3);
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name(threads).enable_all().build();
    let runtime = runtime.expect("the machine has room for two threads");
    let out = runtime.block_on(future);
    let asked = Instant::now();
    runtime.shutdown_timeout(LONGEST);
    let hangs = asked.elapsed() >= LONGEST;
    let ended = match hangs {
        true => Err(Failure::Wrong(format!("what it left behind has not ended after {LONGEST:?}"))),
        false => Ok(()),
    };
    (out, ended)
}

/// Runs `work` on a thread that is not part of any runtime.
pub(crate) async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, told) = oneshot::channel();
    let thread = thread::spawn(move || drop(done.send(work())));
    match told.await {
        Ok(out) => out,
        Err(_) => std::panic::resume_unwind(thread.join().expect_err("it panicked")),
    }
}

/// Runs `work` on a runtime of its own, with one thread that nothing else uses.
pub(crate) async fn on_an_executor<T: Send + 'static>(work: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    on_a_thread(move || {
        Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_is_noticed_a_waiting_one_not() {
        let waits = async {
            drop(tokio::spawn(std::future::pending::<()>()));
        };
        assert_eq!(block_on_and_end("waits", waits).1, Ok(()));
        let keeps = async {
            drop(tokio::spawn(async { thread::sleep(Duration::from_secs(5)) }));
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(block_on_and_end("keeps", keeps).1.is_err());
    }
}
