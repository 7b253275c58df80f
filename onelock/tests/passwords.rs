//! No part of a password is shown, whatever characters it has, whether they were escaped or not.

use std::error::Error as _;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use onelock::{Error, Options};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const SCHEMES: [&str; 25] = [
    "etcd",
    "etcds",
    "gopher",
    "mariadb",
    "mongodb",
    "mongodb+srv",
    "mysql",
    "postgres",
    "postgresql",
    "redis",
    "redis+sentinel",
    "redis+unix",
    "rediss",
    "rediss+sentinel",
    "redlock",
    "redlocks",
    "unix",
    "valkey",
    "valkey+sentinel",
    "valkey+unix",
    "valkeys",
    "valkeys+sentinel",
    "zk",
    "zks",
    "",
];

/// The pieces that passwords here consist of. No other text contains them.
const PIECES: [&str; 3] = ["Qz7kW", "Vx3jY", "Hq9pX"];

/// These stand between the pieces: everything that has a meaning in a URL, for at least one of its parsers.
const BETWEEN: [&str; 28] = [
    "/",
    "?",
    "#",
    "@",
    ":",
    "%",
    "&",
    "=",
    ",",
    ";",
    "+",
    "[",
    "]",
    " ",
    "\\",
    "\"",
    "\t",
    "ä",
    "%zz",
    "%00",
    "%ff",
    "://",
    "?prefix=",
    "&patience=",
    "&db=",
    "&lazy=",
    "/?lazy=",
    "@@",
];

/// Parameters of the backends. After a `&`, a part of a password could be taken for one of them.
const PARAMETERS: [&str; 23] = [
    "authSource",
    "boot",
    "ca",
    "cert",
    "collection",
    "connections",
    "db",
    "key",
    "lazy",
    "max_ttl",
    "mechanism",
    "node_patience",
    "patience",
    "sentinel_password",
    "sentinel_user",
    "session",
    "sslcert",
    "ssl-mode",
    "sslmode",
    "sslrootcert",
    "table",
    "tick",
    "w",
];

/// Where the password stands in the URL, and what may follow it.
const SHAPES: [&str; 12] = [
    "://user:PASSWORD@127.0.0.1:1",
    "://:PASSWORD@127.0.0.1:1/0",
    "://user:PASSWORD@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/0?colour=red",
    "://user:PASSWORD@127.0.0.1:x",
    "://user:PASSWORD@",
    "://user:PASSWORD@127.0.0.1:1?authMechanism=none",
    "://user:PASSWORD@127.0.0.1:1,127.0.0.1:2/mymaster/1",
    "://127.0.0.1:1/mymaster?sentinel_user=u&sentinel_password=PASSWORD",
    "://127.0.0.1:1?user=u&pass=PASSWORD",
    "://127.0.0.1:1?user=u&password=PASSWORD&colour=red",
    ":///run/socket?user=u&pass=PASSWORD",
    "://127.0.0.1:1/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:PASSWORD",
];

fn shows(text: &str) -> bool {
    PIECES.iter().any(|piece| text.contains(piece))
}

/// Returns all texts of an error and of its sources.
fn said(error: &Error) -> String {
    let mut said = format!("{error} {error:?} {}", error.message());
    let mut source = error.source();
    while let Some(error) = source {
        said = format!("{said} {error} {error:?}");
        source = error.source();
    }
    said
}

fn passwords() -> impl Iterator<Item = String> {
    let [first, second, third] = PIECES;
    let pairs = BETWEEN.into_iter().flat_map(|a| BETWEEN.into_iter().map(move |b| (a, b)));
    let around = BETWEEN.into_iter().map(move |a| format!("{a}{first}{a}"));
    let cut = PARAMETERS.into_iter().map(move |name| format!("{first}&{name}={second}:{third}"));
    around.chain(cut).chain(pairs.map(move |(a, b)| format!("{first}{a}{second}{b}{third}")))
}

/// Returns what is shown of the server that a URL names.
#[allow(clippy::match_single_binding, reason = "a build may have no backend with a server")]
#[allow(unused_qualifications, reason = "the backends are tested as users name them")]
fn shown(url: &str) -> onelock::Result<String> {
    #[allow(dead_code, reason = "a build may have no backend with a server")]
    fn debug<T: fmt::Debug>(settings: onelock::Result<T>) -> onelock::Result<String> {
        settings.map(|settings| format!("{settings:?}"))
    }
    match url.split(':').next().unwrap_or_default() {
        #[cfg(feature = "etcd")]
        "etcd" | "etcds" => debug(onelock::etcd::Etcd::from_url(url)),
        #[cfg(feature = "mongodb")]
        "mongodb" | "mongodb+srv" => debug(onelock::mongodb::Mongo::from_url(url)),
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => debug(onelock::mysql::MySql::from_url(url)),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => debug(onelock::postgres::Postgres::from_url(url)),
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+unix" | "unix" | "valkey" | "valkeys" | "valkey+unix"
        | "redis+sentinel" | "rediss+sentinel" | "valkey+sentinel" | "valkeys+sentinel" => {
            debug(onelock::redis::Redis::from_url(url))
        }
        #[cfg(feature = "redlock")]
        "redlock" | "redlocks" => debug(onelock::redlock::Redlock::from_url(url)),
        #[cfg(feature = "zk")]
        "zk" | "zks" => debug(onelock::zk::ZooKeeper::from_url(url)),
        _ => onelock::schema(url),
    }
}

#[test]
fn whatever_characters_a_password_has() {
    for password in passwords() {
        let escaped: String = password.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for shape in SHAPES {
            for url in [&password, &escaped].map(|password| shape.replace("PASSWORD", password)) {
                for url in SCHEMES.map(|scheme| format!("{scheme}{url}")) {
                    let text = shown(&url).unwrap_or_else(|e| said(&e));
                    assert!(!shows(&text), "{url}\n{text}");
                }
            }
        }
    }
}

/// All that a client shows and logs, opened or not.
#[tokio::test]
async fn whatever_becomes_of_the_client() {
    tracing::subscriber::set_global_default(Log).expect("no other test of this program subscribes");
    for scheme in SCHEMES.into_iter().filter(|scheme| !scheme.ends_with("srv")) {
        for rest in [
            "://user:Qz7kW%2FVx3jY@127.0.0.1:1",
            "://user:Qz7kW%2FVx3jY@127.0.0.1:1?lazy=true",
            "://user:Qz7kW%2FVx3jY@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
            "://user:Qz7kW%2FVx3jY@127.0.0.1:1/mymaster?sentinel_password=Qz7kW%2FVx3jY",
        ] {
            let options = Options::default().patience(Duration::from_millis(200));
            let text = match onelock::connect_with(&format!("{scheme}{rest}"), options).await {
                Err(e) => said(&e),
                Ok(client) => {
                    let lock = client.lock("a").build().expect("a name");
                    let tried = lock.try_acquire().await.map(drop).expect_err("there is no server");
                    let checked = client.check().await;
                    format!(
                        "{client:?} {lock:?} {:?} {:?} {checked:?} {}",
                        client.driver(),
                        client.info(),
                        said(&tried)
                    )
                }
            };
            assert!(!shows(&text), "{scheme}{rest}\n{text}");
        }
    }
    let logged = LOGGED.lock().expect("no panic").clone();
    assert!(logged.is_none(), "{logged:?}");
}

/// The first logged line that shows a piece.
static LOGGED: Mutex<Option<String>> = Mutex::new(None);

struct Log;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 = format!("{} {}={value:?}", self.0, field.name());
    }
}

impl Line {
    fn judge(self) {
        if shows(&self.0) {
            LOGGED.lock().expect("no panic").get_or_insert(self.0);
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut line = Line(attributes.metadata().target().to_owned());
        attributes.record(&mut line);
        line.judge();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, record: &Record<'_>) {
        let mut line = Line(String::new());
        record.record(&mut line);
        line.judge();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        line.judge();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
