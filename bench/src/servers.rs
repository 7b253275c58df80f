//! The servers that are measured: those whose URL is given, and those that are started for the measurement.

use std::sync::Arc;

use lock_core::toolkit::Location;
use lock_core::{Owner, Random};
use lock_test_servers::{
    Absence, Etcd, MongoDb, MySql, Owned, Persistence, Postgres, Product, Redis, Settings, ZooKeeper,
};
use onelock::Info;
use tempfile::TempDir;

use crate::Outcome;
use crate::backend::Backend;
use crate::clusters::url_of;
use crate::counter;
use crate::secrets::{Secrets, shown};

/// A server, a file or a memory store.
struct Target {
    url: String,
    /// The temporary folder of a file, which is removed when this is dropped.
    _folder: Option<TempDir>,
    /// The servers that were started for it, which end when this is dropped; none, if it was there.
    servers: Vec<Owned>,
}

impl Target {
    fn at(url: String) -> Target {
        Target { url, _folder: None, servers: Vec::new() }
    }
}

/// A server that is ready to be measured, as one run sees it.
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) backend: Backend,
    pub(crate) info: Arc<Info>,
    target: Target,
    /// Part of every name: no run meets the locks of another.
    run: String,
}

impl Site {
    async fn of(target: Target) -> Outcome<Site> {
        let url = target.url.clone();
        let info = onelock::connect(&url).await?.info();
        let run = Owner::mint(&Random::system()).to_string()[..12].to_owned();
        Ok(Site { backend: Backend::of(&url)?, url, info, target, run })
    }

    /// Returns the product and its version, as a server that was started here tells them.
    pub(crate) fn product(&self) -> Option<String> {
        self.target.servers.first().map(|server| server.version().to_owned())
    }

    /// Returns the `n`th name of a subject at a case.
    pub(crate) fn name(&self, case: &str, subject: &str, n: usize) -> String {
        format!("lock-bench:{}:{}:{subject}:{n}", self.run, case.replace(' ', ":"))
    }
}

/// A kind that can be named instead of a URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) backend: Backend,
    product: Option<&'static dyn Product>,
    /// Of several servers, a majority decides.
    count: usize,
    args: &'static [&'static str],
}

/// Room for the connections of all processes, and the count of requests.
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
    Known::new("mongodb", Backend::Mongo, Some(&MongoDb::Set)),
    Known::new("mongodb-alone", Backend::Mongo, Some(&MongoDb::Standalone)),
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

    /// Returns whether this program starts it with or without a disk.
    fn has_a_choice(self) -> bool {
        matches!(self.backend, Backend::Redis | Backend::Redlock | Backend::MySql | Backend::Postgres)
    }

    /// Starts it, and prepares it for locks.
    async fn run(self, persistence: Persistence) -> Outcome<Result<Target, Absence>> {
        let started = tokio::task::spawn_blocking(move || self.start(persistence)).await?;
        if let Ok(target) = &started {
            self.prepare(&target.url).await?;
        }
        Ok(started)
    }

    fn start(self, persistence: Persistence) -> Result<Target, Absence> {
        match self.product {
            Some(product) => self.server(product, persistence),
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

    fn server(self, product: &'static dyn Product, persistence: Persistence) -> Result<Target, Absence> {
        let args = self.args.iter().map(|&arg| arg.to_owned()).collect();
        let settings = Settings { persistence, args, ..Settings::default() };
        let servers: Vec<Owned> =
            (0..self.count).map(|_| Owned::start(product, &settings)).collect::<Result<_, _>>()?;
        let url = match &servers[..] {
            [one] => one.url().to_owned(),
            several => url_of(several),
        };
        Ok(Target { servers, ..Target::at(url) })
    }
}

/// A server that is asked for. It is started only when its turn comes, so that it takes nothing from what is measured
/// before it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) source: Source,
    /// A server that is started keeps nothing, so that the disk's pauses don't hide other costs, unless that is asked for.
    persistence: Persistence,
    query: String,
    /// One that was not named may be missing.
    pub(crate) named: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// It was there: it must not be killed.
    Given(String),
    Started(Known),
}

const DURABLE: &str = "-durable";
/// The kinds that are also measured with a disk, each as a server of its own.
const TWINS: [&str; 4] = ["redis", "mariadb", "mysql", "postgres"];
/// A second version of a product would be in the way of a choice.
const ON_DEMAND: &str = "postgres-unstable";
/// A form of a kind that a reader may choose.
const FORM: (&str, &str) = ("redis", "fair=true");

impl Asked {
    /// Returns all that is measured if no server is named: every kind, those with a disk each after the same kind without
    /// one, and the fair form of Redis.
    pub(crate) fn everything() -> Vec<Asked> {
        let mut all = Vec::new();
        for known in KNOWN.into_iter().filter(|known| known.name != ON_DEMAND) {
            let of = |persistence, query: &str| {
                let (source, query) = (Source::Started(known), query.to_owned());
                Asked { source, persistence, query, named: false }
            };
            all.push(of(Persistence::None, ""));
            all.extend((known.name == FORM.0).then(|| of(Persistence::None, FORM.1)));
            all.extend(TWINS.contains(&known.name).then(|| of(Persistence::EveryWrite, "")));
        }
        all
    }

    /// Reads a value of `--on`: a URL, the name of a kind, or that of a kind with a disk; a name may have parameters.
    pub(crate) fn parse(on: &str) -> Outcome<Asked> {
        let asked = |source, persistence, query: &str| Asked {
            source,
            persistence,
            query: query.to_owned(),
            named: true,
        };
        if on.contains(':') {
            return Ok(asked(Source::Given(on.to_owned()), Persistence::None, ""));
        }
        let (name, query) = on.split_once('?').unwrap_or((on, ""));
        let known = |name: &str| KNOWN.into_iter().find(|known| known.name == name);
        if let Some(known) = name.strip_suffix(DURABLE).and_then(known).filter(|known| known.has_a_choice()) {
            return Ok(asked(Source::Started(known), Persistence::EveryWrite, query));
        }
        let names = || KNOWN.map(|known| known.name).join(", ");
        let known = known(name).ok_or_else(|| format!("{on:?} is neither a URL nor one of {}", names()))?;
        Ok(asked(Source::Started(known), Persistence::None, query))
    }

    /// Returns its name: `redis-durable`, `redis fair=true`, `redis://host fair=true`. No secret is in it.
    pub(crate) fn name(&self) -> String {
        match &self.source {
            Source::Given(url) => with_parameters(&shown(url), url),
            Source::Started(known) => {
                let is_durable = self.persistence == Persistence::EveryWrite && known.has_a_choice();
                let name = format!("{}{}", known.name, if is_durable { DURABLE } else { "" });
                with_parameters(&name, &format!("redis://h?{}", self.query))
            }
        }
    }

    pub(crate) fn backend(&self) -> Outcome<Backend> {
        match &self.source {
            Source::Given(url) => Backend::of(url),
            Source::Started(known) => Ok(known.backend),
        }
    }

    /// Returns whether the same server without a disk, or in its plain form, is in the same run.
    pub(crate) fn is_a_variant(&self) -> bool {
        let has_twin = matches!(self.source, Source::Started(known) if TWINS.contains(&known.name));
        !self.named && (!self.query.is_empty() || has_twin && self.persistence == Persistence::EveryWrite)
    }

    pub(crate) fn is_started(&self) -> bool {
        matches!(self.source, Source::Started(_))
    }

    pub(crate) fn is_standalone_mongodb(&self) -> bool {
        matches!(self.source, Source::Started(known) if known.name == "mongodb-alone")
    }

    /// Returns whether it writes to the disk before it acknowledges, if this program knows.
    pub(crate) fn writes_first(&self) -> Option<bool> {
        match (self.backend().ok()?, &self.source) {
            (Backend::Memory, _) => Some(false),
            // The library sets `synchronous=FULL`, and `journal=true`.
            (Backend::Sqlite | Backend::Mongo, _) => Some(true),
            (_, Source::Given(_)) => None,
            // It is started with its default, which is to write first.
            (Backend::Etcd | Backend::ZooKeeper, _) => Some(true),
            _ => Some(self.persistence == Persistence::EveryWrite),
        }
    }

    /// Starts it and connects to it. Only a server that was not named may be missing. No secret of a URL is in the
    /// reason.
    pub(crate) async fn start(&self) -> Result<Site, Absence> {
        let started = async {
            let mut target = match &self.source {
                Source::Given(url) => Target::at(url.clone()),
                Source::Started(known) => match known.run(self.persistence).await? {
                    Ok(target) => target,
                    Err(absence) => return Ok(Err(absence)),
                },
            };
            if !self.query.is_empty() {
                target.url = format!("{}?{}", target.url, self.query);
            }
            Outcome::Ok(Ok(Site::of(target).await?))
        };
        let failure = |why: Box<dyn std::error::Error + Send + Sync>| Absence::Failure(why.to_string());
        let hidden = |why: String| match &self.source {
            Source::Given(url) => Secrets::of(url).hide(&why),
            Source::Started(_) => why,
        };
        started.await.map_err(failure).flatten().map_err(|absence| match absence {
            Absence::NotRun(why) if !self.named => Absence::NotRun(why),
            absence => Absence::Failure(hidden(absence.to_string())),
        })
    }
}

/// Returns `name` with the parameters of the URL. Of a URL that has a secret parameter, no parameter is shown: an `&` in
/// the secret may look like the next one.
fn with_parameters(name: &str, url: &str) -> String {
    let has_a_secret = Location::parse(url).map_or(true, |location| location.has_a_secret());
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let shown = query.split('&').filter(|part| !has_a_secret && !part.is_empty());
    std::iter::once(name).chain(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(on: &str) -> Option<String> {
        Asked::parse(on).map(|asked| asked.name()).ok()
    }

    #[test]
    fn a_servers_name_has_its_kind_disk_and_parameters() {
        for on in ["redis", "postgres-durable", "redlock-durable", "sqlite:a.db"] {
            assert_eq!(name(on).as_deref(), Some(on));
        }
        assert_eq!(name("redis?fair=true&grace=2s").as_deref(), Some("redis fair=true grace=2s"));
        assert_eq!(name("redis://u:hunter2@h/1?fair=true").as_deref(), Some("redis://h/1 fair=true"));
        assert_eq!((name("rediss"), name("etcd-durable"), name("new-durable")), (None, None, None));
    }

    #[test]
    fn a_secret_parameter_is_in_no_name() {
        assert_eq!(name("redis+unix:///s?fair=true&pass=hunter&2=x").as_deref(), Some("redis+unix:///s"));
    }

    #[test]
    fn variants_come_after_the_same_kind_without_a_disk() {
        let all = Asked::everything();
        let names: Vec<String> = all.iter().map(Asked::name).collect();
        let redis = names.iter().position(|name| name == "redis").unwrap();
        assert_eq!(names[redis + 1..redis + 3], ["redis fair=true", "redis-durable"]);
        assert!(!names.iter().any(|name| name == ON_DEMAND || name == "sqlite-durable"), "{names:?}");
        assert!(!all[redis].is_a_variant() && all[redis + 1].is_a_variant() && all[redis + 2].is_a_variant());
        assert!(!Asked::parse("redis-durable").unwrap().is_a_variant());
    }

    #[test]
    fn the_disk_of_a_given_server_is_unknown() {
        let writes = |on| Asked::parse(on).unwrap().writes_first();
        assert_eq!((writes("redis://h"), writes("sqlite:a.db")), (None, Some(true)));
        assert_eq!(
            (writes("redis-durable"), writes("redis"), writes("etcd")),
            (Some(true), Some(false), Some(true))
        );
    }
}
