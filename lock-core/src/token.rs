//! Fencing tokens.

use std::fmt;
use std::num::NonZeroU64;

/// A number that rises with every grant of a name. Give it to the resource, which refuses a lower token than it has
/// seen ([`Fence`](crate::Fence)).
///
/// How far you can rely on its rise depends on the server: [`Info::fencing`](crate::driver::Info::fencing) names the
/// assumption. Tokens of different names, or of different backends, are not comparable.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(guard: onelock::Guard) -> onelock::Result<()> {
/// use onelock::FencingToken;
///
/// let token = guard.token();
/// let sent = token.get(); // a number of 64 bits, for the resource
/// assert_eq!(FencingToken::new(sent), Some(token));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// Makes a token of the server's number; `None` for zero, which no server hands out.
    pub fn new(value: u64) -> Option<FencingToken> {
        NonZeroU64::new(value).map(FencingToken)
    }

    /// Returns the number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
