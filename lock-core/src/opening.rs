//! Opening a client: its runtime is checked, its driver connects, and retries while the server isn't up.

use std::sync::Arc;
use std::time::Duration;

use crate::acquisition::LONGEST_PATIENCE;
use crate::backoff;
use crate::client::Client;
use crate::clock::{Clock, Instant};
use crate::driver::{Context, Driver};
use crate::error::{Effect, Error, Result};
use crate::human_duration::HumanDuration;
use crate::options::{Options, RunsOn};
use crate::random::Random;
use crate::runtime::RuntimeHandle;

/// No server answers in less time.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

impl Options {
    /// Opens a client of the driver that `connect` returns. Meant for backends.
    ///
    /// `connect` runs on the client's own runtime, where the driver's connections have to live. It is called once, or
    /// until it succeeds if the client [waits for its server](Self::connect_wait). Errors name the `backend`, and the
    /// `server` as people know it.
    ///
    /// # Errors
    ///
    /// - [`Invalid`](crate::ErrorKind::Invalid): the patience is less than 1 ms; or the client is not dedicated and
    ///   there is no tokio runtime here, or one without timers, or without I/O if `connect` needs it.
    /// - [`Rejected`](crate::ErrorKind::Rejected): the thread of a dedicated client could not be started.
    /// - Any error of `connect`.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, no client is opened. The future of `connect` goes on in the background.
    pub async fn open<D: Driver, F>(
        self,
        backend: &'static str,
        server: &str,
        mut connect: impl FnMut(Context) -> F,
    ) -> Result<Client>
    where
        F: Future<Output = Result<D>> + Send + 'static,
    {
        if self.patience.is_some_and(|patience| patience < LEAST_PATIENCE) {
            return Err(Error::invalid(format!(
                "the patience must be at least {}: a request needs time for its answer",
                HumanDuration(LEAST_PATIENCE)
            )));
        }
        let clock = self.the_clock();
        let runtime = match self.runs_on {
            RunsOn::CallersRuntime => RuntimeHandle::current(&clock)?,
            RunsOn::OwnThread => RuntimeHandle::dedicated(clock.clone())?,
        };
        let clock = clock.with_queue(runtime.handle());
        let patience = self.patience.unwrap_or(LONGEST_PATIENCE);
        let mut tries = Tries::begin(&clock, &self.random, self.connect_wait);
        let driver = loop {
            let context = Context { clock: clock.clone(), random: self.random.clone(), patience };
            // Boxed: a driver's own futures nest deeply, and a program that can open several backends would not compile
            // without the box (the compiler limits the depth of types).
            let error = match runtime.run(&clock, patience, Box::pin(connect(context))).await {
                Ok(driver) => break driver,
                Err(error) => error,
            };
            let pause = tries.failed(error).map_err(|e| e.at(backend, server, "connect", None))?;
            let paused = runtime.here(clock.sleep(pause)).await;
            paused.map_err(|why| runtime.unanswered(why, Effect::NotApplied))?;
        };
        Ok(Client::start(Arc::new(driver), self, runtime, clock))
    }
}

/// The client's tries to connect, and the time until which it may retry.
struct Tries<'a> {
    clock: &'a Clock,
    random: &'a Random,
    began: Instant,
    wait: Duration,
    failed: u32,
}

impl<'a> Tries<'a> {
    fn begin(clock: &'a Clock, random: &'a Random, wait: Option<Duration>) -> Tries<'a> {
        Tries { clock, random, began: clock.now(), wait: wait.unwrap_or_default(), failed: 0 }
    }

    /// Counts a try that has failed. Returns the pause before the next one, or the error if it does not pass by itself or
    /// the time is over.
    fn failed(&mut self, error: Error) -> Result<Duration> {
        self.failed = self.failed.saturating_add(1);
        let pause = error.retry_in().unwrap_or_else(|| backoff::after_error(self.failed, self.random));
        let passed = self.clock.now().since(self.began);
        if error.is_transient() && passed.saturating_add(pause) < self.wait {
            return Ok(pause);
        }
        Err(match self.failed {
            1 => error,
            tries => error.and_says(&format!("; tried {tries} times within {}", HumanDuration(passed))),
        })
    }
}
