//! The driver of Redis: the crate redis.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_core::toolkit::Location;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, PushInfo};

use crate::Outcome;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    info: ConnectionInfo,
}

impl Server {
    /// Reads the part of the URL before the `?`. The parameters after it are for our backend.
    pub(crate) fn at(url: &str) -> Outcome<Server> {
        let url = Location::parse(url)?;
        let info = url.base().into_connection_info()?;
        let silence = Duration::from_secs(10);
        let tcp = info
            .tcp_settings()
            .clone()
            .set_nodelay(true)
            .set_keepalive(TcpKeepalive::new().with_time(silence).with_interval(silence / 4));
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(silence);
        Ok(Server { info: info.set_tcp_settings(tcp) })
    }

    /// Returns the servers of `redlock://host,host,…`.
    fn all_of(url: &str) -> Outcome<Vec<Server>> {
        let location = Location::parse(url)?;
        location.hosts(6379)?.iter().map(|host| Server::at(&location.base_of("redis", host))).collect()
    }

    /// Opens a connection to the server of a URL, or to each of `redlock://host,host,…`, to all of them at once.
    pub(crate) async fn connect_to_all(url: &str) -> Outcome<Vec<MultiplexedConnection>> {
        let servers = match url.starts_with("redlock") {
            true => Server::all_of(url)?,
            false => vec![Server::at(url)?],
        };
        try_join_all(servers.iter().map(Server::connect)).await
    }

    /// Opens one multiplexed connection for commands, on RESP3 as the library's.
    pub(crate) async fn connect(&self) -> Outcome<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(None)
            .set_push_sender(|_: PushInfo| Ok::<(), ()>(()));
        let client = self.client(ProtocolVersion::RESP3)?;
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// Creates a client of the crate redis with this protocol. The library's connection for wake-ups is on RESP2.
    pub(crate) fn client(&self, protocol: ProtocolVersion) -> Outcome<Client> {
        let login = self.info.redis_settings().clone().set_protocol(protocol);
        Ok(Client::open(self.info.clone().set_redis_settings(login))?)
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
