//! MongoDB: a replica set of one, and a standalone server.

mod set;
pub(crate) mod wire;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use bson::{Document, doc};

use super::catalogue::{self, Listing};
use super::executable::Executable;
use super::product::{Place, Product};
use super::server_url::{PATIENCE, Stream, connect};
use super::settings::Settings;
use super::waiting::until;
use wire::is;

/// A server of MongoDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MongoDb {
    /// A replica set with one member, which has everything that a set has, except other members.
    Set,
    /// A standalone server: without retryable writes, without change streams.
    Standalone,
}

/// The replica set's name.
const SET: &str = "locks";
/// An election may take this long. The members have to notice first that the old primary is missing.
const ELECTION: Duration = Duration::from_secs(30);
/// The port that a URL need not name.
const PORT: u16 = 27017;

impl Product for MongoDb {
    fn listing(&self) -> &'static Listing {
        &catalogue::MONGODB
    }

    fn prepare(&self, _: &Executable, place: &Place, _: &Settings) -> io::Result<()> {
        std::fs::create_dir_all(self.data(place))
    }

    /// Both keep a journal, which locks require to be written before each answer, so there is no server without
    /// persistence.
    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        let mut command = program.command();
        command.args(["--port", &place.port.to_string(), "--bind_ip", "127.0.0.1"]);
        command.arg("--dbpath").arg(self.data(place)).arg("--unixSocketPrefix").arg(&place.folder);
        command.args(["--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64"]);
        // For fail points, with which cases make a server refuse what it would not refuse by itself.
        command.args(["--setParameter", "enableTestCommands=1"]);
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
        // Expired documents are removed within a second or two, instead of a minute.
        command.args(["--setParameter", "ttlMonitorSleepSecs=1"]);
        command.args(&settings.args);
        if *self == MongoDb::Set {
            command.args(["--replSet", SET]);
        }
        if let Some(libraries) = libraries(program.path()) {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn url(&self, place: &Place) -> String {
        let parameters = if *self == MongoDb::Set { "/?directConnection=true" } else { "" };
        format!("mongodb://127.0.0.1:{}{parameters}", place.port)
    }

    /// The socket is in the server's folder, so no other server can answer there. MongoDB has no such URL; only this
    /// crate reads it.
    fn own_url(&self, place: &Place) -> String {
        format!("unix://{}/mongodb-{}.sock", place.folder.display(), place.port)
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        let answer = ask(url, doc! { "buildInfo": 1 })?;
        Ok(format!("mongodb {}", answer.get_str("version").unwrap_or("of unknown version")))
    }

    /// Makes a set of this server, if it is to be one. A set of one elects itself.
    fn started(&self, place: &Place) -> io::Result<()> {
        if *self == MongoDb::Standalone {
            return Ok(());
        }
        let mut stream = connect(&self.own_url(place), PORT, ELECTION)?;
        let elected = until(ELECTION, Duration::from_millis(5), || {
            let hello = wire::ask(&mut stream, doc! { "hello": 1 })?;
            let is_primary = is(&hello, "isWritablePrimary");
            if !is_primary && !hello.contains_key("setName") {
                initiate(&mut stream, &[place.port])?;
            }
            Ok(is_primary.then_some(()))
        })?;
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no primary within {ELECTION:?}"));
        elected.ok_or_else(late)
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        let answer = ask(url, doc! { "hello": 1 })?;
        let time = answer.get_datetime("localTime").map_err(io::Error::other)?;
        Ok(time.to_system_time())
    }
}

/// Sends one command on a connection of its own.
fn ask(url: &str, command: Document) -> io::Result<Document> {
    wire::ask(&mut connect(url, PORT, PATIENCE)?, command)
}

/// Returns the path of libraries that were installed beside the program, followed by the system's own.
fn libraries(program: &Path) -> Option<OsString> {
    let beside = program.parent()?.parent()?.join("lib");
    if !beside.join("libcrypto.so.1.1").exists() {
        return None;
    }
    let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|folder| !folder.as_os_str().is_empty());
    std::env::join_paths(std::iter::once(beside).chain(others)).ok()
}

/// Makes a replica set of the servers at these ports. Its elections are quick, so that cases with a failover are quick,
/// too.
fn initiate(stream: &mut impl Stream, ports: &[u16]) -> io::Result<()> {
    let member = |(port, id): (&u16, i32)| doc! { "_id": id, "host": format!("127.0.0.1:{port}") };
    let config = doc! {
        "_id": SET,
        "members": ports.iter().zip(0..).map(member).collect::<Vec<Document>>(),
        "settings": { "electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 250 },
    };
    match wire::ask(stream, doc! { "replSetInitiate": config }) {
        // It is a replica set already, and still reads its old configuration.
        Err(e) if e.to_string().contains("(23)") => Ok(()),
        answer => answer.map(drop),
    }
}
