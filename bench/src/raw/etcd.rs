//! The client of etcd's protocol.

use std::io::{Read, Write};
use std::net::TcpStream;

use etcd_client::{Client, ConnectOptions};
use lock_core::driver::Location;

use crate::Outcome;

/// Connects to the first member that the URL names, as the library connects to one member at a time.
pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    let member = format!("http://{}", first(url)?);
    Ok(Client::connect([member], Some(ConnectOptions::new().with_require_leader(true))).await?)
}

/// Returns how many requests the member has received, messages of streams included. Uses HTTP/1.0, whose answers come
/// in one piece.
pub(crate) fn requests(url: &str) -> Outcome<u64> {
    let mut stream = TcpStream::connect(first(url)?)?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let counts = answer.lines().filter(|line| line.starts_with("grpc_server_msg_received_total{"));
    counts.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()? as u64)).sum()
}

fn first(url: &str) -> Outcome<String> {
    Ok(Location::parse(url)?.hosts(2379)?[0].to_string())
}
