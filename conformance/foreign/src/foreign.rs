//! A client of another library, with a driver or without.

use std::fmt;
use std::path::Path;

use async_trait::async_trait;
use lock_test_servers::{Absence, Requirement};

use super::cases::Storm;
use super::catalogue;
use super::contender::Contender;
use super::driver::{self, Driver};
use super::etcdctl::Etcdctl;
use super::kind::Kind;

/// A client of another library, as a process of its own. Dropping it kills the process.
#[derive(Debug)]
pub struct Foreign {
    kind: Kind,
    place: Place,
    client: Client,
}

/// The folder of our locks if the URL names none.
const ZOOKEEPER_FOLDER: &str = "/locks";

/// The way in which a client is told of a lock with one of our names.
#[derive(Debug)]
enum Place {
    /// By its name, which is plain.
    Name,
    /// By the path of its node: the name in this folder.
    Node(String),
    /// By its name, in which every byte that is not plain is written as `%` and two digits.
    Encoded,
}

#[derive(Debug)]
enum Client {
    Driver(Driver),
    Etcdctl(Etcdctl),
}

impl Foreign {
    /// Starts a client for the server at `url`, which has no password, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// If the client can't run here, or doesn't start.
    pub async fn start(kind: Kind, url: &str) -> Result<Foreign, Absence> {
        Foreign::find(kind)?;
        let (servers, path) = parts(url);
        let client = match kind {
            Kind::Etcdctl => Client::Etcdctl(Etcdctl::new(servers)),
            kind => Client::Driver(Driver::start(kind, servers).await?),
        };
        let place = match kind {
            Kind::EtcdGo | Kind::Etcdctl => Place::Name,
            Kind::Curator | Kind::Kazoo if path.is_empty() => Place::Node(ZOOKEEPER_FOLDER.to_owned()),
            Kind::Curator | Kind::Kazoo => Place::Node(path.to_owned()),
            _ => Place::Encoded,
        };
        Ok(Foreign { kind, place, client })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Checks whether everything is there that the client needs.
    ///
    /// # Errors
    ///
    /// If anything is missing. The error names it.
    pub fn find(kind: Kind) -> Result<(), Absence> {
        let listing = kind.listing();
        let required = Requirement::from_env()?;
        why_missing(listing).map_or(Ok(()), |why| Err(required.absent(listing.name, &why)))
    }

    /// Returns how many clients of any library hold a lock or wait for it, by what is on the server.
    pub async fn queue(&mut self, name: &str) -> u64 {
        let name = self.place(name);
        match &mut self.client {
            Client::Driver(driver) => driver.queue(&name).await,
            Client::Etcdctl(etcdctl) => etcdctl.queue(&name).await,
        }
    }

    /// Releases a lock that was lost before.
    ///
    /// # Panics
    ///
    /// If the release succeeds.
    pub(super) async fn release_fails(&mut self, name: &str) {
        let name = self.place(name);
        match &mut self.client {
            Client::Driver(driver) => driver.release_fails(&name).await,
            Client::Etcdctl(_) => unreachable!("its locks end with its processes"),
        }
    }

    /// Returns what this client is told of the lock of that name.
    fn place(&self, name: &str) -> String {
        match &self.place {
            Place::Name => name.to_owned(),
            Place::Node(folder) => format!("{folder}/{name}"),
            Place::Encoded => encoded(name),
        }
    }
}

/// Returns why the client can't run here, if it can't.
pub(super) fn why_missing(listing: &catalogue::Listing) -> Option<String> {
    if cfg!(not(unix)) {
        return Some("clients of other libraries are started on Unix only".to_owned());
    }
    if let Some(program) = listing.missing(&std::env::var_os("PATH").unwrap_or_default()) {
        return Some(format!("there is no {program} on the PATH"));
    }
    let driver = listing.driver.as_ref()?;
    let is_built = driver::folder(listing.name).is_some_and(|folder| driver.is_built(&folder));
    (!is_built).then(|| "it is not built (cargo xtask servers)".to_owned())
}

/// Writes every byte of a name that is neither a letter nor a digit of ASCII, nor one of `-._`, as `%` and two digits.
fn encoded(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Returns the hosts of a URL, and the path behind them.
fn parts(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('?').next().unwrap_or(rest);
    let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (hosts, path.trim_end_matches('/'))
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

#[async_trait]
impl Contender for Foreign {
    async fn ask(&mut self, name: &str) {
        let name = self.place(name);
        match &mut self.client {
            Client::Driver(driver) => driver.ask(&name),
            Client::Etcdctl(etcdctl) => etcdctl.ask(&name),
        }
    }

    fn has_it(&mut self) -> bool {
        match &mut self.client {
            Client::Driver(driver) => driver.has_answered(),
            Client::Etcdctl(etcdctl) => etcdctl.has_it(),
        }
    }

    async fn held(&mut self) {
        match &mut self.client {
            Client::Driver(driver) => driver.held().await,
            Client::Etcdctl(etcdctl) => etcdctl.held().await,
        }
    }

    async fn attempt(&mut self, name: &str) -> Option<bool> {
        let name = self.place(name);
        match &mut self.client {
            Client::Driver(driver) => Some(driver.attempt(&name).await),
            Client::Etcdctl(_) => None,
        }
    }

    fn token(&self) -> Option<u64> {
        match &self.client {
            Client::Driver(driver) => driver.token(),
            Client::Etcdctl(_) => None,
        }
    }

    async fn release(&mut self, name: &str) {
        let name = self.place(name);
        match &mut self.client {
            Client::Driver(driver) => driver.release(&name).await,
            Client::Etcdctl(etcdctl) => etcdctl.release().await,
        }
    }

    async fn storm(&mut self, name: &str, file: &Path, storm: Storm) -> u64 {
        let name = self.place(name);
        match &mut self.client {
            Client::Driver(driver) => driver.storm(&name, file, storm).await,
            Client::Etcdctl(etcdctl) => etcdctl.storm(&name, file, storm).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{catalogue, encoded, parts};

    #[test]
    #[cfg(unix)]
    fn a_program_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(catalogue::CURATOR.missing(path), Some("mvn"));
        for program in ["mvn", "java"] {
            std::fs::write(folder.path().join(program), "").unwrap();
        }
        assert_eq!(catalogue::CURATOR.missing(path), Some("javac"));
    }

    #[test]
    fn every_client_can_be_required() {
        let names: Vec<&str> = catalogue::ALL.iter().map(|listing| listing.name).collect();
        assert_eq!(names, lock_test_servers::catalogue::CLIENTS);
    }

    #[test]
    fn a_name_is_one_word_to_a_driver() {
        assert_eq!(encoded("one-waits"), "one-waits");
        assert_eq!(encoded("a b+{c}/ß%"), "a%20b%2B%7Bc%7D%2F%C3%9F%25");
    }

    #[test]
    fn servers_and_directory_are_read_from_the_url() {
        assert_eq!(parts("etcd://a:1,b:2"), ("a:1,b:2", ""));
        assert_eq!(parts("zk://a:1/locks/x/?patience=1s"), ("a:1", "/locks/x"));
    }
}
