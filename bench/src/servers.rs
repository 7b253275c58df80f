//! The servers that are measured: those whose URL is given, and those that are started for the measurement.

use std::sync::Arc;

use lock_test_servers::{
    Absence, Etcd, MongoDb, MySql, Owned, Persistence, Postgres, Product, Redis, Settings, StandaloneMongoDb,
    ZooKeeper,
};
use tempfile::TempDir;

use crate::Outcome;
use crate::backend::Backend;
use crate::counter;
use crate::secrets::Secrets;
use crate::site::Site;

/// A server, a file or a memory store that is measured.
pub(crate) struct Target {
    pub(crate) url: String,
    /// The temporary folder of a file, which is removed when this is dropped.
    _folder: Option<TempDir>,
    /// The servers that were started for it, which end when the last clone of this is dropped; none, if it was there.
    pub(crate) servers: Arc<Vec<Owned>>,
}

impl Target {
    fn at(url: String) -> Target {
        Target { url, _folder: None, servers: Arc::default() }
    }
}

/// A kind that can be named instead of a URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) backend: Backend,
    product: Option<&'static dyn Product>,
    /// How many servers are started. Of several, a majority decides.
    count: usize,
    /// Further arguments of the server's program.
    args: &'static [&'static str],
}

/// Room for the connections of `renewal`, and what the counter of requests needs.
const POSTGRES: &[&str] = &[
    "-c",
    "max_connections=400",
    "-c",
    "shared_preload_libraries=pg_stat_statements",
    "-c",
    counter::STARTED_HERE,
];

pub(crate) const KNOWN: [Known; 12] = [
    Known::new("memory", Backend::Memory, None),
    Known::new("sqlite", Backend::Sqlite, None),
    Known::new("redis", Backend::Redis, Some(&Redis)),
    Known::new("redlock", Backend::Redlock, Some(&Redis)).of_five(),
    Known::new("mariadb", Backend::MySql, Some(&MySql::MariaDb)),
    Known::new("mysql", Backend::MySql, Some(&MySql::MySql)),
    Known::new("postgres", Backend::Postgres, Some(&Postgres::Installed)).with(POSTGRES),
    Known::new("postgres-unstable", Backend::Postgres, Some(&Postgres::Unstable)).with(POSTGRES),
    Known::new("mongodb", Backend::Mongo, Some(&MongoDb)),
    Known::new("mongodb-alone", Backend::Mongo, Some(&StandaloneMongoDb)),
    Known::new("etcd", Backend::Etcd, Some(&Etcd)),
    Known::new("zookeeper", Backend::ZooKeeper, Some(&ZooKeeper)),
];

impl Known {
    const fn new(name: &'static str, backend: Backend, product: Option<&'static dyn Product>) -> Known {
        Known { name, backend, product, count: 1, args: &[] }
    }

    const fn of_five(self) -> Known {
        Known { count: 5, ..self }
    }

    const fn with(self, args: &'static [&'static str]) -> Known {
        Known { args, ..self }
    }

    /// Starts it, and prepares it for locks.
    pub(crate) async fn run(self, durability: Durability) -> Outcome<Result<Target, Absence>> {
        let started = tokio::task::spawn_blocking(move || self.start(durability)).await?;
        if let Ok(target) = &started {
            self.prepare(&target.url).await?;
        }
        Ok(started)
    }

    fn start(self, durability: Durability) -> Result<Target, Absence> {
        match self.product {
            Some(product) => self.server(product, durability),
            None if self.name == "sqlite" => {
                let folder = tempfile::tempdir().map_err(|e| Absence::Failure(e.to_string()))?;
                let url = format!("sqlite://{}", folder.path().join("locks.db").display());
                Ok(Target { _folder: Some(folder), ..Target::at(url) })
            }
            None => Ok(Target::at(format!("{}://", self.name))),
        }
    }

    /// Initializes several servers, which were started for this run, so no client holds a lock there. Keeps a server
    /// from counting while no counter asks.
    async fn prepare(self, url: &str) -> Outcome<()> {
        if self.count > 1 {
            onelock::connect(url).await?.init().await?;
        }
        match self.backend {
            Backend::Postgres => counter::rest(url).await,
            _ => Ok(()),
        }
    }

    fn server(self, product: &'static dyn Product, durability: Durability) -> Result<Target, Absence> {
        let persistence = durability.persistence();
        let args = self.args.iter().map(|&arg| arg.to_owned()).collect();
        let settings = Settings { persistence, args, ..Settings::default() };
        let servers: Vec<Owned> =
            (0..self.count).map(|_| Owned::start(product, &settings)).collect::<Result<_, _>>()?;
        let url = match &servers[..] {
            [one] => one.url().to_owned(),
            several => {
                let hosts = several.iter().map(|server| server.url().trim_start_matches("redis://"));
                format!("redlock://{}/", hosts.collect::<Vec<_>>().join(","))
            }
        };
        Ok(Target { servers: Arc::new(servers), ..Target::at(url) })
    }
}

/// Whether a started server writes to the disk before it acknowledges, as servers in use do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It writes nothing, so that the disk's pauses don't hide other costs.
    InMemory,
    EveryWrite,
}

impl Durability {
    fn persistence(self) -> Persistence {
        match self {
            Durability::InMemory => Persistence::None,
            Durability::EveryWrite => Persistence::EveryWrite,
        }
    }
}

/// What `--on` names. It is started only when its turn comes, so that it takes nothing from what is measured before it.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Url(String),
    /// It has to be there; otherwise the run fails.
    Named(Known),
    /// It is skipped if it is not there.
    Any(Known),
}

impl Asked {
    /// Starts it, unless it is a URL; an `Absence` if it is not there.
    pub(crate) async fn run(&self, durability: Durability) -> Outcome<Result<Target, Absence>> {
        match self {
            Asked::Url(url) => Ok(Ok(Target::at(url.clone()))),
            Asked::Named(known) | Asked::Any(known) => known.run(durability).await,
        }
    }

    /// Starts it and connects to it. Only a server that was not asked for may be missing. No secret of a URL is in the
    /// reason.
    pub(crate) async fn start(&self, durability: Durability) -> Result<(Target, Site), Absence> {
        let started = async {
            let target = match self.run(durability).await? {
                Ok(target) => target,
                Err(absence) => return Ok(Err(absence)),
            };
            let site = Site::of(&target.url).await?;
            Outcome::Ok(Ok((target, site)))
        };
        let failure = |why: Box<dyn std::error::Error + Send + Sync>| Absence::Failure(why.to_string());
        let absence = match started.await.map_err(failure).flatten() {
            Ok(started) => return Ok(started),
            Err(absence) => absence,
        };
        Err(match (self, absence) {
            (Asked::Any(_), absence) => absence,
            (Asked::Named(_), absence) => Absence::Failure(absence.to_string()),
            (Asked::Url(url), absence) => Absence::Failure(Secrets::of(url).hide(&absence.to_string())),
        })
    }
}

pub(crate) fn parse(on: &str) -> Outcome<Asked> {
    if on.contains(':') {
        return Ok(Asked::Url(on.to_owned()));
    }
    let known = KNOWN.into_iter().find(|known| known.name == on).map(Asked::Named);
    let names = || KNOWN.map(|known| known.name).join(", ");
    known.ok_or_else(|| format!("{on:?} is neither a URL nor one of {}", names()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_makes_a_url() {
        assert!(matches!(parse("sqlite:a.db"), Ok(Asked::Url(_))));
        assert!(matches!(parse("redis"), Ok(Asked::Named(Known { name: "redis", .. }))));
        assert!(parse("rediss").is_err());
    }
}
