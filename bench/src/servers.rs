//! The servers that are measured: those whose URL is given, and those that are started for the measurement.

use std::any::Any;

use lock_conformance::record;
use lock_test_servers::{
    Absence, Etcd, MongoDb, MySql, Owned, Persistence, Postgres, Product, Redis, Settings, StandaloneMongoDb,
    ZooKeeper,
};

use crate::Outcome;
use crate::args::Quick;

/// A server, a file or a memory store that is measured.
pub(crate) struct Target {
    /// Its name in the table.
    pub(crate) name: String,
    pub(crate) url: String,
    /// The started server or the temporary folder, which is removed when this is dropped.
    _kept: Kept,
}

type Kept = Option<Box<dyn Any + Send + Sync>>;

/// A kind that can be named instead of a URL.
#[derive(Clone, Copy, Debug)]
struct Known {
    name: &'static str,
    product: Option<&'static dyn Product>,
    /// How many servers are started. Of several, a majority decides.
    count: usize,
    /// Further arguments of the server's program.
    args: &'static [&'static str],
}

/// Room for the connections of `renewal`.
const MANY_CONNECTIONS: &[&str] = &["-c", "max_connections=400"];

const KNOWN: [Known; 12] = [
    Known { name: "memory", product: None, count: 1, args: &[] },
    Known { name: "sqlite", product: None, count: 1, args: &[] },
    Known { name: "redis", product: Some(&Redis), count: 1, args: &[] },
    Known { name: "redlock", product: Some(&Redis), count: 5, args: &[] },
    Known { name: "mariadb", product: Some(&MySql::MariaDb), count: 1, args: &[] },
    Known { name: "mysql", product: Some(&MySql::MySql), count: 1, args: &[] },
    Known { name: "postgres", product: Some(&Postgres::Installed), count: 1, args: MANY_CONNECTIONS },
    Known { name: "postgres-unstable", product: Some(&Postgres::Unstable), count: 1, args: MANY_CONNECTIONS },
    Known { name: "mongodb", product: Some(&MongoDb), count: 1, args: &[] },
    Known { name: "mongodb-alone", product: Some(&StandaloneMongoDb), count: 1, args: &[] },
    Known { name: "etcd", product: Some(&Etcd), count: 1, args: &[] },
    Known { name: "zookeeper", product: Some(&ZooKeeper), count: 1, args: &[] },
];

impl Known {
    fn start(self, durable: bool) -> Result<Target, Absence> {
        let (url, kept) = match self.product {
            Some(product) => self.server(product, durable)?,
            None if self.name == "sqlite" => {
                let folder = tempfile::tempdir().map_err(|e| Absence::Failure(e.to_string()))?;
                (
                    format!("sqlite://{}", folder.path().join("locks.db").display()),
                    Some(Box::new(folder) as _),
                )
            }
            None => (format!("{}://", self.name), None),
        };
        Ok(Target { name: self.name.to_owned(), url, _kept: kept })
    }

    /// Initializes several servers. They were started for this run, so no client holds a lock there.
    async fn prepare(self, url: &str) -> Outcome<()> {
        if self.count > 1 {
            onelock::connect(url).await?.init().await?;
        }
        Ok(())
    }

    fn server(self, product: &'static dyn Product, durable: bool) -> Result<(String, Kept), Absence> {
        let persistence = if durable { Persistence::EveryWrite } else { Persistence::None };
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
        Ok((url, Some(Box::new(servers))))
    }
}

/// The targets that were asked for, one after the other: a server is started only when its turn comes, so that it takes
/// nothing from the one that is measured before it.
pub(crate) struct Targets {
    asked: std::vec::IntoIter<Asked>,
    durable: bool,
}

#[derive(Clone, Debug)]
enum Asked {
    Url(String),
    /// It has to be there; otherwise the run fails.
    Named(Known),
    /// It is skipped if it is not there.
    Any(Known),
}

impl Targets {
    pub(crate) fn of(options: &Quick) -> Outcome<Targets> {
        let asked: Vec<Asked> = match &options.on[..] {
            [] => KNOWN.map(Asked::Any).to_vec(),
            named => named.iter().map(|on| parse(on)).collect::<Outcome<_>>()?,
        };
        Ok(Targets { asked: asked.into_iter(), durable: options.durable })
    }

    /// Starts the next target that is there, and returns it; nothing after the last one.
    pub(crate) async fn next(&mut self) -> Outcome<Option<Target>> {
        for asked in self.asked.by_ref() {
            let (known, may_be_absent) = match asked {
                Asked::Url(url) => return Ok(Some(Target { name: String::new(), url, _kept: None })),
                Asked::Named(known) => (known, false),
                Asked::Any(known) => (known, true),
            };
            let durable = self.durable;
            match tokio::task::spawn_blocking(move || known.start(durable)).await? {
                Ok(target) => {
                    known.prepare(&target.url).await?;
                    return Ok(Some(target));
                }
                Err(Absence::NotRun(why)) if may_be_absent => {
                    record::not_run(&format!("lock-bench on {}", known.name), &why);
                    eprintln!("{}: not run, because {why}", known.name);
                }
                Err(absence) => return Err(format!("{}: {absence}", known.name).into()),
            }
        }
        Ok(None)
    }
}

fn parse(on: &str) -> Outcome<Asked> {
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
