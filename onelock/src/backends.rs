//! The list of backends: which URL schemes, and which feature, belong to each. One line per backend.

use lock_core::driver::Location;
use lock_core::{Client, Error, Options, Result};

/// Makes the functions `connect` and `schema`, and the list of all schemes, from lines of
/// `feature [schemes] => connect, schema`.
macro_rules! backends {
    ($($feature:literal [$($scheme:literal),+] => $connect:path, $schema:expr;)+) => {
        const SCHEMES: &[&str] = &[$($($scheme),+),+];

        pub(crate) async fn connect(url: &str, options: Options) -> Result<Client> {
            let location = Location::parse(url)?;
            match scheme(&location) {
                $($($scheme)|+ => {
                    #[cfg(feature = $feature)]
                    let outcome = $connect(url, options).await;
                    #[cfg(not(feature = $feature))]
                    let outcome = not_built_in(location.scheme(), $feature, options);
                    outcome
                })+
                scheme => Err(unknown(scheme)),
            }
        }

        pub(crate) fn schema(url: &str) -> Result<String> {
            let location = Location::parse(url)?;
            match scheme(&location) {
                $($($scheme)|+ => {
                    #[cfg(feature = $feature)]
                    let schema: fn(&str) -> Result<String> = $schema;
                    #[cfg(not(feature = $feature))]
                    let schema = |url| not_built_in(location.scheme(), $feature, url);
                    schema(url)
                })+
                scheme => Err(unknown(scheme)),
            }
        }
    };
}

backends! {
    "etcd" ["etcd", "etcds"] => lock_etcd::connect_with, |url| lock_etcd::Etcd::from_url(url).map(|_| NOTHING);
    "memory" ["memory", "memory+queue"] => lock_memory::connect, |_| Ok(NOTHING);
    "mongodb" ["mongodb", "mongodb+srv"] => lock_mongo::connect_with, |url| Ok(lock_mongo::Mongo::from_url(url)?.schema());
    "redis" ["redis", "rediss", "redis+unix", "unix", "valkey", "valkeys", "valkey+unix"] => lock_redis::connect_with, |url| lock_redis::Redis::from_url(url).map(|_| NOTHING);
    "redlock" ["redlock", "redlocks"] => lock_redlock::connect_with, |url| lock_redlock::Redlock::from_url(url).map(|_| NOTHING);
    "mysql" ["mysql", "mariadb"] => lock_sql::mysql::connect_with, |url| Ok(lock_sql::mysql::MySql::from_url(url)?.schema());
    "postgres" ["postgres", "postgresql"] => lock_sql::postgres::connect_with, |url| Ok(lock_sql::postgres::Postgres::from_url(url)?.schema());
    "zk" ["zk", "zks"] => lock_zk::connect_with, |url| lock_zk::ZooKeeper::from_url(url).map(|_| NOTHING);
    "sqlite" ["sqlite"] => lock_sql::sqlite::connect_with, |url| Ok(lock_sql::sqlite::Sqlite::from_url(url)?.schema());
}

/// The schema of a server that needs none.
#[allow(dead_code, reason = "a build may have no backend without a schema")]
const NOTHING: String = String::new();

/// Returns the scheme: what stands before `://`. Only `sqlite` may be followed by a `:` alone, as in `sqlite:locks.db`.
/// Otherwise `host:port` would be taken for a scheme and a path.
fn scheme(location: &Location) -> &str {
    match location.base().split_once("://") {
        Some((scheme, _)) => scheme,
        None => [location.scheme()].into_iter().find(|scheme| *scheme == "sqlite").unwrap_or_default(),
    }
}

/// The error for a backend that this build lacks. It takes the arguments that would otherwise be unused.
#[allow(dead_code, reason = "a build with every backend does not call it")]
fn not_built_in<T>(scheme: &str, feature: &str, _given: impl Sized) -> Result<T> {
    Err(Error::unsupported(format!(
        "{scheme}:// needs the feature \"{feature}\" of the crate onelock, which this program was built without"
    )))
}

/// The error for an unknown scheme. It shows the scheme only if it looks like one, and no other part of the URL: any
/// other part may contain a password.
fn unknown(scheme: &str) -> Error {
    let there_are = SCHEMES.join("://, ");
    let plausible = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    Error::invalid(match scheme {
        "" => format!("the URL does not begin with a scheme; there are: {there_are}://"),
        scheme if scheme.chars().all(plausible) => {
            format!("no backend has the scheme {scheme}://; there are: {there_are}://")
        }
        _ => format!("no backend has the scheme of this URL; there are: {there_are}://"),
    })
}
