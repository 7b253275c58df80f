//! Setup that a client does once, in the first call that needs it.

use std::sync::OnceLock;

use super::Call;
use crate::error::{Effect, Result};

/// Something that a client learns or prepares once, in the first call that needs it: what a lazy client did not do when
/// it was opened.
///
/// One call does it at a time. The others wait for that, no longer than their own time.
#[derive(Debug)]
pub struct FirstUse<T> {
    done: OnceLock<T>,
    /// Held by the call that does it.
    turn: tokio::sync::Mutex<()>,
}

impl<T> FirstUse<T> {
    /// Starts with nothing done.
    pub fn new() -> FirstUse<T> {
        FirstUse { done: OnceLock::new(), turn: tokio::sync::Mutex::default() }
    }

    /// Returns the result, if it is done.
    pub fn get(&self) -> Option<&T> {
        self.done.get()
    }

    /// Returns the result. If it is not done yet, does it first: `work` has to end with the call.
    ///
    /// # Errors
    ///
    /// `Unavailable` with [`Effect::NotApplied`] if the call is over before its turn has come; otherwise the error of
    /// `work`. After an error the next call does it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, so is `work`, and the next call does it.
    pub async fn ensure<F>(&self, call: &Call, work: impl FnOnce() -> F) -> Result<&T>
    where
        F: Future<Output = Result<T>>,
    {
        if let Some(done) = self.done.get() {
            return Ok(done);
        }
        // Boxed, so the future of every call does not reserve space for what almost none needs.
        Box::pin(async {
            let turn = call.within(self.turn.lock()).await;
            let _turn = turn.ok_or_else(|| call.out_of_time(Effect::NotApplied))?;
            match self.done.get() {
                Some(done) => Ok(done),
                None => {
                    let done = work().await?;
                    Ok(self.done.get_or_init(|| done))
                }
            }
        })
        .await
    }
}

impl<T> Default for FirstUse<T> {
    fn default() -> FirstUse<T> {
        FirstUse::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::error::Error;

    const PATIENCE: Duration = Duration::from_millis(100);

    #[tokio::test(start_paused = true)]
    async fn it_is_done_once_for_all_calls() {
        let (first_use, times) = (FirstUse::new(), Cell::new(0));
        let call = Call::begin(&Clock::system(), PATIENCE);
        let work = || async {
            times.set(times.get() + 1);
            call.clock().timeout(PATIENCE / 2, std::future::pending::<()>()).await;
            Ok(7)
        };
        assert_eq!(first_use.get(), None);
        let (a, b) = tokio::join!(first_use.ensure(&call, work), first_use.ensure(&call, work));
        assert_eq!((a.unwrap(), b.unwrap(), first_use.get(), times.get()), (&7, &7, Some(&7), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_call_redoes_a_failed_setup() {
        let first_use = FirstUse::new();
        let call = Call::begin(&Clock::system(), PATIENCE);
        let refused = first_use.ensure(&call, || async { Err(Error::rejected("not today")) }).await;
        assert_eq!(refused.map(|_: &u8| ()).unwrap_err().message(), "not today");
        let hangs = first_use.ensure(&call, std::future::pending);
        assert!(call.clock().timeout(PATIENCE / 10, hangs).await.is_none());
        assert_eq!(first_use.ensure(&call, || async { Ok(7) }).await.unwrap(), &7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_no_longer_than_its_limit() {
        let first_use = FirstUse::<u8>::new();
        let (clock, forever) = (Clock::system(), std::future::pending);
        let (long, short) = (Call::begin(&clock, PATIENCE * 10), Call::begin(&clock, PATIENCE));
        let waiting = async {
            tokio::task::yield_now().await;
            first_use.ensure(&short, || async { panic!("it is not its turn") }).await.map(|_| ())
        };
        let (_, outcome) =
            tokio::join!(clock.timeout(PATIENCE * 2, first_use.ensure(&long, forever)), waiting);
        let error = outcome.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
    }
}
