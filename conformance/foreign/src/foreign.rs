//! A client of another library, with a driver or without.

use async_trait::async_trait;
use lock_test_servers::{Absence, Requirement};

use super::catalogue;
use super::contender::Contender;
use super::driver::{self, Driver};
use super::etcdctl::Etcdctl;
use super::kind::Kind;

/// A client of another library, as a process of its own. Dropping it kills the process.
#[async_trait]
pub trait Foreign: Contender {
    /// Returns how many clients of any library hold a lock or wait for it, by what is on the server.
    async fn queue(&mut self, name: &str) -> u64;

    /// Releases a lock that was lost before.
    ///
    /// # Panics
    ///
    /// If the release succeeds.
    async fn release_fails(&mut self, name: &str);
}

/// Starts a client for the server at `url`, which has no password, and waits until it is connected.
///
/// # Errors
///
/// If the client can't run here, or doesn't start.
pub async fn start(kind: Kind, url: &str) -> Result<Box<dyn Foreign>, Absence> {
    find(kind)?;
    Ok(match kind {
        Kind::Etcdctl => Box::new(Etcdctl::new(parts(url).0)),
        kind => Box::new(Driver::start(kind, url).await?),
    })
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

/// The folder of our locks on ZooKeeper, if the URL names none.
const ZOOKEEPER_FOLDER: &str = "/locks";

/// Returns what the client of a server at `url` is told of the lock of that name.
pub(super) fn place(kind: Kind, url: &str, name: &str) -> String {
    match (kind, parts(url).1) {
        (Kind::EtcdGo | Kind::Etcdctl, _) => name.to_owned(),
        (Kind::Curator | Kind::Kazoo, "") => format!("{ZOOKEEPER_FOLDER}/{name}"),
        (Kind::Curator | Kind::Kazoo, folder) => format!("{folder}/{name}"),
        _ => encoded(name),
    }
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
pub(super) fn parts(url: &str) -> (&str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('?').next().unwrap_or(rest);
    let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (hosts, path.trim_end_matches('/'))
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
