//! Whoever takes part in a case, ours or theirs.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

/// A client that takes one lock at a time. What goes wrong with it panics: the case has failed.
#[async_trait]
pub trait Contender: fmt::Debug + fmt::Display + Send {
    /// Asks for the lock, however long that takes. It is [held](Contender::held) later.
    async fn ask(&mut self, name: &str);

    /// Whether what was asked for is held by now, as far as it has been told.
    fn has_it(&mut self) -> bool;

    /// Waits until what was asked for is held.
    async fn held(&mut self);

    /// Whether the lock can be had now; if so, it is held. `None` if this client has no such question.
    async fn attempt(&mut self, name: &str) -> Option<bool>;

    /// Gives back what it holds; panics if it was lost before.
    async fn release(&mut self, name: &str);

    /// Takes the lock again and again for so long, each time to add one to the number in that file, which nothing else
    /// protects. How often it did.
    async fn storm(&mut self, name: &str, file: &Path, length: Duration) -> u64;
}
