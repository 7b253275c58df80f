//! A party of a case: our client, or another library's.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;

use super::cases::Storm;

/// A client that takes one lock at a time. Anything that goes wrong with it panics, and the case has failed.
#[async_trait]
pub trait Contender: fmt::Debug + fmt::Display + Send {
    /// Asks for the lock, however long that takes. [`held`](Contender::held) waits for it.
    async fn ask(&mut self, name: &str);

    /// Returns whether the lock that it asked for is held by now, as far as this client has been told.
    fn has_it(&mut self) -> bool;

    /// Waits until the lock that it asked for is held.
    async fn held(&mut self);

    /// Asks for the lock, and waits until it is held.
    async fn acquire(&mut self, name: &str) {
        self.ask(name).await;
        self.held().await;
    }

    /// Tries to get the lock at once, and returns whether it holds it now. `None` if this client has no such call.
    async fn attempt(&mut self, name: &str) -> Option<bool>;

    /// Returns the token of the lock that it holds. `None` if its locks have no tokens.
    fn token(&self) -> Option<u64> {
        None
    }

    /// Releases the lock.
    ///
    /// # Panics
    ///
    /// If the lock was lost before.
    async fn release(&mut self, name: &str);

    /// Acquires the lock again and again, each time to add one to the number in `file`, which nothing else protects.
    /// Returns how often it did.
    async fn storm(&mut self, name: &str, file: &Path, storm: Storm) -> u64;
}
