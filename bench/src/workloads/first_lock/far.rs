//! The same servers, further away. On one machine a round trip is shorter than what a program computes between two of
//! them; what a program takes longer when the servers are further away is the time in which it waits for the network.

use std::time::Duration;

use lock_conformance::proxy::Proxy;
use lock_core::toolkit::Location;

use crate::Outcome;
use crate::backend::Backend;

/// Servers of this machine behind a network with a delay.
pub(super) struct Far {
    /// What leads to them there.
    pub(super) url: String,
    _network: Proxy,
}

/// Has the driver of MongoDB talk to the servers of the URL and to no others.
const DIRECT: &str = "directConnection=true";
/// How long a message is on its way, in each direction.
const EACH_WAY: Duration = Duration::from_millis(5);

impl Far {
    /// Moves the servers of this URL away. `None` if they are not on this machine, or if there is no server.
    pub(super) async fn of(backend: Backend, url: &str) -> Outcome<Option<Far>> {
        let servers = match backend {
            Backend::Memory | Backend::Sqlite => return Ok(None),
            _ => here(url)?,
        };
        let Some(servers) = servers else { return Ok(None) };
        let network = Proxy::start_all(&servers).await?;
        network.move_away(EACH_WAY);
        let mut url = url.to_owned();
        for (server, address) in servers.iter().zip(network.addresses()) {
            url = url.replacen(server, &address.to_string(), 1);
        }
        // The driver would ask the server where the members are, and go to them past the network.
        if backend == Backend::Mongo && !url.contains(DIRECT) {
            let next = if url.contains('?') { '&' } else { '?' };
            url = format!("{url}{next}{DIRECT}");
        }
        Ok(Some(Far { url, _network: network }))
    }
}

/// Returns the hosts of a URL as they are written there, if all of them are on this machine.
fn here(url: &str) -> Outcome<Option<Vec<String>>> {
    let hosts = Location::parse(url)?.hosts(NO_PORT)?;
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let are_here = hosts.iter().all(|host| host.starts_with("127.0.0.1:") && url.contains(host.as_str()));
    Ok(are_here.then_some(hosts))
}

/// The port of a host that is written without one. No server listens there.
const NO_PORT: u16 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn servers_of_this_machine_are_moved_and_no_others() {
        let url = "redlock://u:p@127.0.0.1:7001,127.0.0.1:7002/?prefix=a";
        let far = Far::of(Backend::Redlock, url).await.unwrap().unwrap();
        assert!(
            far.url.starts_with("redlock://u:p@127.0.0.1:") && far.url.ends_with("/?prefix=a"),
            "{}",
            far.url
        );
        let moved = here(&far.url).unwrap().unwrap();
        assert!(moved.len() == 2 && !moved.iter().any(|host| url.contains(host.as_str())), "{moved:?}");
        for (backend, elsewhere) in [
            (Backend::Redis, "redis://db.example:6379"),
            (Backend::Redis, "redis://127.0.0.1"),
            (Backend::Redlock, "redlock://127.0.0.1:7001,db.example:6379"),
            (Backend::Sqlite, "sqlite:locks.db"),
        ] {
            assert!(Far::of(backend, elsewhere).await.unwrap().is_none(), "{elsewhere}");
        }
    }

    #[tokio::test]
    async fn the_driver_of_mongodb_stays_behind_the_network() {
        let far = async |url| Far::of(Backend::Mongo, url).await.unwrap().unwrap().url;
        assert!(far("mongodb://127.0.0.1:27017/a").await.ends_with("/a?directConnection=true"));
        assert!(far("mongodb://127.0.0.1:27017/a?b=c").await.ends_with("?b=c&directConnection=true"));
        assert!(
            far("mongodb://127.0.0.1:27017/a?directConnection=true")
                .await
                .ends_with("/a?directConnection=true")
        );
    }
}
