//! The client of ZooKeeper's protocol.

use std::io::{Read, Write};
use std::net::TcpStream;

use lock_core::DEFAULT_TTL as TTL;
use lock_core::toolkit::Location;
use zookeeper_client::Client;

use crate::Outcome;

pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    Ok(Client::connector().with_session_timeout(TTL).connect(&hosts(url)?).await?)
}

/// Returns the number of packets that the first server has received.
pub(crate) fn requests(url: &str) -> Outcome<u64> {
    let hosts = hosts(url)?;
    let mut stream = TcpStream::connect(hosts.split(',').next().unwrap_or_default())?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let count = answer.lines().find_map(|line| line.strip_prefix("Received: "));
    Ok(count.ok_or("srvr doesn't say how many packets there were")?.trim().parse()?)
}

fn hosts(url: &str) -> Outcome<String> {
    let hosts: Vec<String> = Location::parse(url)?.hosts(2181)?.iter().map(ToString::to_string).collect();
    Ok(hosts.join(","))
}
