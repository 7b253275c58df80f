//! The client of etcd's protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, LeaseClient};
use lock_core::DEFAULT_TTL as TTL;
use lock_core::toolkit::Location;
use tokio::task::AbortHandle;

use crate::Outcome;

/// Connects to the first member that the URL names, as the library connects to one member at a time.
pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    let member = format!("http://{}", first(url)?);
    Ok(Client::connect([member], Some(ConnectOptions::new().with_require_leader(true))).await?)
}

/// A lease is kept alive so often, as by the library.
const BEAT: Duration = Duration::from_secs(TTL.as_secs() / 3);

/// A lease that is kept alive until this is dropped.
pub(crate) struct Lease {
    pub(crate) id: i64,
    heartbeat: AbortHandle,
}

impl Lease {
    pub(crate) async fn grant(client: &Client) -> Outcome<Lease> {
        let mut leases = client.lease_client();
        let id = leases.grant(i64::try_from(TTL.as_secs())?, None).await?.id();
        let heartbeat = tokio::spawn(keep_alive(leases, id)).abort_handle();
        Ok(Lease { id, heartbeat })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.heartbeat.abort();
    }
}

async fn keep_alive(mut leases: LeaseClient, lease: i64) {
    let Ok((mut keeper, mut answers)) = leases.keep_alive(lease).await else { return };
    loop {
        tokio::time::sleep(BEAT).await;
        if keeper.keep_alive().await.is_err() || answers.message().await.is_err() {
            return;
        }
    }
}

/// Returns the number of requests that the member has received, messages of streams included.
pub(crate) fn requests(url: &str) -> Outcome<u64> {
    let mut stream = TcpStream::connect(first(url)?)?;
    // The answers of HTTP/1.0 come in one piece.
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let counts = answer.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    counts.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()? as u64)).sum()
}

fn first(url: &str) -> Outcome<String> {
    Ok(Location::parse(url)?.hosts(2379)?[0].to_string())
}
