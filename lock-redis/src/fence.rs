//! The resource's side of fencing, for data in Redis: a write that refuses a stale token.

use lock_core::{FencingToken, Stale};
use redis::aio::ConnectionLike;
use redis::{ErrorKind, RedisError, ServerErrorKind, ToSingleRedisArg, Value};

use crate::scripts::FENCED_WRITE;
use crate::side::{Kind, side_key};

/// A key that refuses a write with a lower token than one that has written before.
///
/// The highest token that has written is kept beside the key, in its cluster slot. It never expires, because there is
/// no limit on how late a stale holder may write. A token that is not lower is accepted: a holder may write more than
/// once. All tokens of one key have to come from one lock. Writes that do not go through this type are not checked.
///
/// ```no_run
/// # mod onelock { pub use lock_core::*; pub use lock_redis as redis; }
/// # async fn example(guard: lock_core::Guard, mut connection: redis::aio::MultiplexedConnection)
/// #     -> Result<(), lock_redis::WriteError> {
/// use onelock::redis::FencedWrite;
/// let report = FencedWrite::new("report");
/// report.set(&mut connection, guard.token(), "42 rows").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct FencedWrite {
    key: Vec<u8>,
    fence: Vec<u8>,
}

/// Why a fenced write was not done, or may not have been.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// A later holder has written, so the writer's lock was lost in the meantime. Nothing was written.
    Stale(Stale),
    /// The server or the connection failed. It is not known whether the value was written, unless the server said so.
    /// The same write may be sent again.
    Redis(RedisError),
}

impl FencedWrite {
    /// Creates a fenced write to `key`.
    pub fn new(key: impl Into<Vec<u8>>) -> FencedWrite {
        let key = key.into();
        FencedWrite { fence: side_key(&key, Kind::Fence), key }
    }

    /// Sets the key to `value`, as `SET` does, unless a later token than `token` has written to it.
    ///
    /// This is one atomic step on the server.
    ///
    /// # Errors
    ///
    /// [`WriteError::Stale`] if a later token has written, [`WriteError::Redis`] if the server or the connection
    /// failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the write may or may not have been done. It can be sent again.
    pub async fn set(
        &self,
        connection: &mut impl ConnectionLike,
        token: FencingToken,
        value: impl ToSingleRedisArg,
    ) -> Result<(), WriteError> {
        let mut command = FENCED_WRITE.on(&[&self.key, &self.fence]);
        command.arg(token.get()).arg(value);
        let answer = match command.query_async::<Value>(connection).await {
            Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                FENCED_WRITE.in_full(&command).query_async(connection).await
            }
            answer => answer,
        };
        let highest: Option<u64> = redis::from_redis_value(answer?).map_err(RedisError::from)?;
        match highest.and_then(FencingToken::new) {
            None => Ok(()),
            Some(highest) => Err(WriteError::Stale(Stale::new(token, highest))),
        }
    }
}

impl From<RedisError> for WriteError {
    fn from(error: RedisError) -> WriteError {
        WriteError::Redis(error)
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WriteError::Stale(stale) => stale.fmt(f),
            WriteError::Redis(error) => write!(f, "the fenced write failed: {error}"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Stale(stale) => Some(stale),
            WriteError::Redis(error) => Some(error),
        }
    }
}
