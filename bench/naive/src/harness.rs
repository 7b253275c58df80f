//! The schemes on servers, for cases of the suite.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Forget, SHORTEST_TTL, ThroughProxy};
use lock_conformance::{Ability, Harness, Missing};
use lock_core::{Client, Name, Options, Result};
use lock_test_servers::{
    Absence, MongoDb, MySql, Owned, Persistence, Product, Redis, RedisAdmin, Server, Settings,
};
use mongodb::bson::{Document, doc};
use sqlx::{Connection, MySqlConnection};

use crate::Scheme;

/// A scheme, and the servers that it needs.
#[derive(Debug)]
pub struct OnServers {
    scheme: Scheme,
    urls: Vec<String>,
    /// Those that were started for it, or that the environment names. None if it was given URLs.
    servers: Vec<Server>,
}

/// As many servers as texts on Redlock have.
pub const FIVE: usize = 5;

impl OnServers {
    /// Takes servers that are there: one URL, and for Redlock that of each server.
    pub fn at(scheme: Scheme, urls: Vec<String>) -> OnServers {
        OnServers { scheme, urls, servers: Vec::new() }
    }

    /// Starts the servers.
    ///
    /// # Errors
    ///
    /// The reason, if there are none.
    pub fn start(scheme: Scheme) -> std::result::Result<OnServers, Absence> {
        let servers = match scheme {
            // Where there is no MySQL, MariaDB does the same.
            Scheme::UniqueIndex => vec![one(&MySql::MySql).or_else(|absence| match absence {
                Absence::NotRun(_) => one(&MySql::MariaDb),
                failure => Err(failure),
            })?],
            Scheme::FindAndModify => vec![one(&MongoDb)?],
            Scheme::Setnx | Scheme::SetNxEx | Scheme::FairQueue => vec![one(&Redis)?],
            Scheme::Redlock => five()?.into_iter().map(|server| Server::Owned(Box::new(server))).collect(),
        };
        let urls = servers.iter().map(|server| server.url().to_owned()).collect();
        Ok(OnServers { scheme, urls, servers })
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        self.urls.iter().map(String::as_str)
    }
}

/// Starts a server, or finds the one that the environment names.
fn one(product: &'static dyn Product) -> std::result::Result<Server, Absence> {
    Server::find_or_start(product, &settings())
}

/// Starts servers for Redlock.
///
/// # Errors
///
/// The reason, if they can't be started.
pub fn five() -> std::result::Result<Vec<Owned>, Absence> {
    (0..FIVE).map(|_| Owned::start(&Redis, &settings())).collect()
}

/// No case needs what a server keeps.
pub fn settings() -> Settings {
    Settings { persistence: Persistence::None, ..Settings::default() }
}

/// Returns the URL by which a scheme finds these servers.
pub fn url_of<'a>(urls: impl IntoIterator<Item = &'a str>) -> String {
    match urls.into_iter().collect::<Vec<_>>()[..] {
        [url] => url.to_owned(),
        ref several => {
            let host =
                |url: &'a str| url.trim_start_matches("redis://").split('/').next().unwrap_or_default();
            format!("redlock://{}", several.iter().copied().map(host).collect::<Vec<_>>().join(","))
        }
    }
}

#[async_trait]
impl Harness for OnServers {
    fn name(&self) -> String {
        match &self.servers[..] {
            [] => self.scheme.name().to_owned(),
            [server, ..] => format!("{} on {server}", self.scheme.name()),
        }
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.scheme.connect(&url_of(self.urls()), options).await
    }

    /// Databases write to a disk. Redlock asks five servers, which share the machine, one after the other.
    fn ttl(&self) -> Duration {
        match self.scheme {
            Scheme::UniqueIndex | Scheme::FindAndModify | Scheme::Redlock => SHORTEST_TTL * 3,
            Scheme::Setnx | Scheme::SetNxEx | Scheme::FairQueue => SHORTEST_TTL,
        }
    }

    fn server_ended(&self) -> Option<String> {
        self.servers.iter().find_map(Server::ended)
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        Ok(self)
    }

    fn can_use_proxy(self: Arc<Self>) -> Ability<dyn ThroughProxy> {
        match (self.scheme, &self.servers[..]) {
            (Scheme::FairQueue, [server]) => server.started_here().map(|()| self as _),
            _ => Err(Missing::because("no case of this scheme needs a proxy")),
        }
    }
}

#[async_trait]
impl ThroughProxy for OnServers {
    fn addresses(&self) -> Vec<String> {
        self.servers.iter().filter_map(Server::owned).map(Owned::address).collect()
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.scheme.connect(&format!("redis://{}", addresses[0]), options).await
    }
}

#[async_trait]
impl Forget for OnServers {
    async fn forget(&self, name: &Name) {
        for url in self.urls() {
            let forgot = match self.scheme {
                Scheme::UniqueIndex => delete_row(url, name).await,
                Scheme::FindAndModify => delete_document(url, name).await,
                _ => delete_key(url, &format!("{}:{}", self.scheme.name(), name.as_str())).await,
            };
            assert_eq!(forgot, 1, "{name} was held");
        }
    }
}

async fn delete_row(url: &str, name: &Name) -> u64 {
    let mut connection = MySqlConnection::connect(url).await.expect("a URL that was used before");
    let delete = sqlx::query("DELETE FROM naive_locks WHERE name = ?").bind(name.as_str().as_bytes());
    delete.execute(&mut connection).await.expect("DELETE").rows_affected()
}

async fn delete_document(url: &str, name: &Name) -> u64 {
    let client = mongodb::Client::with_uri_str(url).await.expect("a URL that was used before");
    let locks = client.database("naive").collection::<Document>("locks");
    // The driver panics if the last handle is dropped while the runtime ends.
    std::mem::forget(client);
    locks.delete_one(doc! { "_id": name.as_str() }).await.expect("a delete").deleted_count
}

async fn delete_key(url: &str, key: &str) -> u64 {
    let mut admin = RedisAdmin::of(url).await;
    redis::cmd("DEL").arg(key).query_async(admin.connection()).await.expect("DEL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_are_one_url_of_their_hosts() {
        assert_eq!(url_of(["redis://a:1/"]), "redis://a:1/");
        assert_eq!(url_of(["redis://a:1/", "redis://b:2"]), "redlock://a:1,b:2");
    }
}
