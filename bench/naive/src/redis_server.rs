//! One Redis server, and a connection to it. A connection that broke is replaced at the next request.

use std::sync::Arc;

use lock_core::driver::Context;
use lock_core::toolkit::Call;
use lock_core::{Effect, Error, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue};
use tokio::sync::Mutex;

#[derive(Debug)]
pub(crate) struct RedisServer {
    /// The crate's own client, for connections of other kinds, too.
    pub(crate) client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisServer {
    /// Connects, and asks whether the server answers.
    pub(crate) async fn connect(url: &str, context: &Context) -> Result<Arc<RedisServer>> {
        let server = RedisServer::at(url)?;
        server.ask::<()>(&Call::begin(&context.clock, context.patience), &redis::cmd("PING")).await?;
        Ok(Arc::new(server))
    }

    /// Connects to nothing yet.
    pub(crate) fn at(url: &str) -> Result<RedisServer> {
        let client = Client::open(url);
        let client = client.map_err(|e| Error::invalid("this is not a URL for Redis").with_source(e))?;
        Ok(RedisServer { client, connection: Mutex::default() })
    }

    pub(crate) async fn ask<T: FromRedisValue>(&self, call: &Call, command: &Cmd) -> Result<T> {
        let connected = call.within(self.connection()).await;
        let connected = connected.ok_or_else(|| call.out_of_time(Effect::NotApplied))?;
        let mut connection = connected.map_err(|e| unavailable(Effect::NotApplied, e))?;
        let Some(answer) = call.within(command.query_async(&mut connection)).await else {
            return Err(call.out_of_time(Effect::Unknown));
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(e) if e.is_unrecoverable_error() => {
                *self.connection.lock().await = None;
                Err(unavailable(Effect::Unknown, e))
            }
            Err(e) => Err(Error::rejected("Redis refused it").with_source(e)),
        }
    }

    async fn connection(&self) -> redis::RedisResult<MultiplexedConnection> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current {
            return Ok(connection.clone());
        }
        // The limit of each request is that of its call.
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(current.insert(connection).clone())
    }
}

pub(crate) fn unavailable(effect: Effect, error: redis::RedisError) -> Error {
    Error::unavailable(effect, "Redis did not answer").with_source(error)
}

/// Deletes a key if it has this value.
pub(crate) fn compare_and_delete(key: &str, value: &str) -> Cmd {
    const SCRIPT: &str =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let mut delete = redis::cmd("EVAL");
    delete.arg(SCRIPT).arg(1).arg(key).arg(value);
    delete
}
