//! Which URL is whose: one line per backend.

use lock_core::{Client, Error, Location, Options, Result};

/// From lines of `feature [schemes] => connect` makes the list of all schemes and the choice by scheme.
macro_rules! backends {
    ($($feature:literal [$($scheme:literal),+] => $connect:path;)+) => {
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
    };
}

backends! {
    "memory" ["memory", "memory+queue"] => lock_memory::connect;
    "mongodb" ["mongodb", "mongodb+srv"] => lock_mongo::connect_with;
    "redis" ["redis", "rediss", "redis+unix", "unix", "valkey", "valkeys", "valkey+unix"] => lock_redis::connect_with;
    "mysql" ["mysql", "mariadb"] => lock_sql::mysql::connect_with;
    "postgres" ["postgres", "postgresql"] => lock_sql::postgres::connect_with;
    "sqlite" ["sqlite"] => lock_sql::sqlite::connect_with;
}

/// A server's URL has slashes, or may be a host and a port. A file's needs none: `sqlite:locks.db`.
fn scheme(location: &Location) -> &str {
    match location.base().split_once("://") {
        Some((scheme, _)) => scheme,
        None => [location.scheme()].into_iter().find(|scheme| *scheme == "sqlite").unwrap_or_default(),
    }
}

/// The options go unused in a build without any backend.
#[allow(dead_code, reason = "in a build with every backend nothing is missing")]
fn not_built_in(scheme: &str, feature: &str, _options: Options) -> Result<Client> {
    Err(Error::unsupported(format!(
        "{scheme}:// needs the feature \"{feature}\" of the crate onelock, which this program was built without"
    )))
}

/// Only the scheme is shown, and only if it looks like one: anything else of a URL may hold a password.
fn unknown(scheme: &str) -> Error {
    let there_are = SCHEMES.join("://, ");
    let plausible = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    Error::invalid(match scheme {
        "" => format!("a server's URL begins with a scheme; there are: {there_are}://"),
        scheme if scheme.chars().all(plausible) => {
            format!("no backend has the scheme {scheme}://; there are: {there_are}://")
        }
        _ => format!("no backend has the scheme of this URL; there are: {there_are}://"),
    })
}
