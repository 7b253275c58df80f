//! The list of backends: which URL schemes, which feature and which crate belong to each. One line per backend.

use lock_core::toolkit::Location;
use lock_core::{Client, Error, Options, Result};

/// Makes a module for each backend, the list of all schemes, and the functions `connect` and `schema`, from lines of
/// `feature [schemes] => module, connect, schema`. The module is a dependency, or a module in one: `mysql in lock_sql`.
macro_rules! backends {
    ($(
        $feature:literal [$($scheme:literal),+] =>
            $module:ident $(in $package:ident)?, $connect:ident, $schema:expr;
    )+) => {
        $(
            #[cfg(feature = $feature)]
            #[doc(inline)]
            pub use $(:: $package)? :: $module;
        )+

        /// Every scheme that a URL may have, also those of backends that are not built in.
        ///
        /// | schemes | feature |
        /// |---|---|
        $(#[doc = concat!("| ", $("`", $scheme, "://` ",)+ "| `", $feature, "` |")])+
        pub const SCHEMES: &[&str] = &[$($($scheme),+),+];

        const BACKENDS: &[Backend] = &[$(
            Backend { feature: $feature, schemes: &[$($scheme),+], is_built_in: cfg!(feature = $feature) }
        ),+];

        pub(crate) async fn connect(url: &str, options: Options) -> Result<Client> {
            let location = Location::parse(url)?;
            match scheme(&location) {
                $($($scheme)|+ => {
                    #[cfg(feature = $feature)]
                    let outcome = $module::$connect(url, options).await;
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
    "etcd" ["etcd", "etcds"] => etcd, connect_with, |url| etcd::Etcd::from_url(url).map(|_| NOTHING);
    "memory" ["memory", "memory+queue", "memory+register"] => memory, connect, |_| Ok(NOTHING);
    "mongodb" ["mongodb", "mongodb+srv"] => mongodb, connect_with, |url| Ok(mongodb::Mongo::from_url(url)?.schema());
    "redis" ["redis", "rediss", "redis+unix", "unix", "valkey", "valkeys", "valkey+unix", "redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel", "redis+cluster", "rediss+cluster", "valkey+cluster", "valkeys+cluster"] => redis, connect_with, |url| redis::Redis::from_url(url).map(|_| NOTHING);
    "redlock" ["redlock", "redlocks"] => redlock, connect_with, |url| redlock::Redlock::from_url(url).map(|_| NOTHING);
    "mysql" ["mysql", "mariadb"] => mysql in lock_sql, connect_with, |url| Ok(mysql::MySql::from_url(url)?.schema());
    "postgres" ["postgres", "postgresql"] => postgres in lock_sql, connect_with, |url| Ok(postgres::Postgres::from_url(url)?.schema());
    "zk" ["zk", "zks"] => zk, connect_with, |url| zk::ZooKeeper::from_url(url).map(|_| NOTHING);
    "sqlite" ["sqlite"] => sqlite in lock_sql, connect_with, |url| Ok(sqlite::Sqlite::from_url(url)?.schema());
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
    let needs = match feature {
        "etcd" => ", which needs protoc (Debian: protobuf-compiler; Homebrew: protobuf)",
        _ => "",
    };
    Err(Error::unsupported(format!(
        "{scheme}://: this program was built without {feature}: add the feature \"{feature}\" (`--features {feature}`){needs}"
    )))
}

/// The schemes of one backend.
struct Backend {
    feature: &'static str,
    schemes: &'static [&'static str],
    is_built_in: bool,
}

impl Backend {
    /// Returns its first scheme, which has no extras: `redis://`.
    fn shown(&self) -> String {
        format!("{}://", self.schemes[0])
    }
}

/// Says which kinds of servers this build knows, and which features add the others.
fn there_are() -> String {
    let (built_in, others): (Vec<_>, Vec<_>) = BACKENDS.iter().partition(|backend| backend.is_built_in);
    let others = others.iter().map(|other| format!("{} (feature \"{}\")", other.shown(), other.feature));
    let there_are = match built_in.is_empty() {
        true => "no backend is built in".to_owned(),
        false => {
            let shown: Vec<String> = built_in.into_iter().map(Backend::shown).collect();
            format!("there are {}, and variants of these", shown.join(", "))
        }
    };
    let others: Vec<String> = others.collect();
    match others.is_empty() {
        true => there_are,
        false => format!("{there_are}; not built into this program: {}", others.join(", ")),
    }
}

/// The error for an unknown scheme. It shows the scheme only if it looks like one, and no other part of the URL: any
/// other part may contain a password.
fn unknown(scheme: &str) -> Error {
    let is_plausible = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    Error::invalid(match (before_the_url(scheme), meant(scheme)) {
        (Some(before), _) => format!("the URL begins with {before}, which is no part of it: leave that out"),
        _ if scheme.is_empty() => {
            format!("the URL does not begin with a scheme and `://`, as in redis://host; {}", there_are())
        }
        _ if !is_plausible => format!("no backend has the scheme of this URL; {}", there_are()),
        (_, Some(meant)) => format!("no backend has the scheme {scheme}://; did you mean {meant}://?"),
        (_, None) => format!("no backend has the scheme {scheme}://; {}", there_are()),
    })
}

/// Returns what stands before a known scheme.
fn before_the_url(scheme: &str) -> Option<&'static str> {
    let before =
        SCHEMES.iter().filter_map(|known| scheme.strip_suffix(known)).min_by_key(|before| before.len())?;
    match before.chars().next()? {
        _ if before.contains('=') => Some("a name and `=`"),
        '"' | '\'' | '`' => Some("a quotation mark"),
        '\u{feff}' => Some("a byte order mark"),
        c if c.is_whitespace() => Some("a blank"),
        _ => None,
    }
}

/// Returns the scheme that is probably meant: what other programs call it, or one that differs in two letters at most.
fn meant(scheme: &str) -> Option<&'static str> {
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == scheme).map(|(_, ours)| *ours);
    let near = || {
        let all = SCHEMES.iter().map(|known| (distance(scheme, known), *known));
        let (distance, nearest) = all.min_by_key(|(distance, _)| *distance)?;
        (distance <= 2 && distance * 2 < scheme.len()).then_some(nearest)
    };
    other.or_else(near)
}

/// The names of the schemes in other programs and libraries.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("pg", "postgres"),
    ("pgsql", "postgres"),
    ("psql", "postgres"),
    ("maria", "mariadb"),
    ("mongo", "mongodb"),
    ("zookeeper", "zk"),
    ("zookeepers", "zks"),
    ("sentinel", "redis+sentinel"),
    ("redis-sentinel", "redis+sentinel"),
    ("rediss-sentinel", "rediss+sentinel"),
    ("cluster", "redis+cluster"),
    ("redis-cluster", "redis+cluster"),
    ("rediss-cluster", "rediss+cluster"),
    ("redis-socket", "redis+unix"),
    ("redis+socket", "redis+unix"),
    ("redis+tls", "rediss"),
    ("redis+ssl", "rediss"),
    ("file", "sqlite"),
    ("mem", "memory"),
];

/// Returns how many letters have to be put in, taken out or changed to make `b` of `a` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in b.iter().enumerate() {
            row.push((last[j] + usize::from(a != *b)).min(last[j + 1] + 1).min(row[j] + 1));
        }
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::not_built_in;

    #[test]
    fn etcd_that_is_missing_says_what_it_takes() {
        let said =
            |scheme, feature| not_built_in::<()>(scheme, feature, ()).unwrap_err().message().to_owned();
        let etcd = said("etcds", "etcd");
        for words in ["etcds://", "--features etcd", "protoc", "protobuf-compiler", "Homebrew: protobuf"] {
            assert!(etcd.contains(words), "{words}: {etcd}");
        }
        assert!(!said("zk", "zk").contains("protoc"));
    }
}
