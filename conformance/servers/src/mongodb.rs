//! MongoDB: a replica set of one, and a standalone server.

mod set;
pub(crate) mod wire;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use bson::{Document, doc};

use super::catalogue::{self, Listing};
use super::executable::Executable;
use super::product::{Place, Product};
use super::server_url::{ServerUrl, connect_to_first};
use super::settings::Settings;
use wire::is;

/// A replica set with one member, which has everything that a set has, except other members.
#[derive(Debug)]
pub struct MongoDb;

/// A standalone server: without retryable writes, without change streams.
#[derive(Debug)]
pub struct StandaloneMongoDb;

/// The replica set's name.
const SET: &str = "locks";
/// An election may take this long. The members have to notice first that the old primary is missing.
const ELECTION: Duration = Duration::from_secs(30);
/// A server has this long for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

impl Product for MongoDb {
    fn listing(&self) -> &'static Listing {
        &catalogue::MONGODB
    }

    fn prepare(&self, _: &Executable, place: &Place, _: &Settings) -> io::Result<()> {
        std::fs::create_dir_all(data(place))
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        let mut command = command(program, place, settings);
        command.args(["--replSet", SET]);
        command
    }

    fn url(&self, place: &Place) -> String {
        format!("mongodb://127.0.0.1:{}/?directConnection=true", place.port)
    }

    fn own_url(&self, place: &Place) -> String {
        own_url(place)
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        greet(url)
    }

    /// Makes a set of this server. A set of one elects itself.
    fn started(&self, place: &Place) -> io::Result<()> {
        let mut stream = connect_for(&own_url(place), ELECTION)?;
        let deadline = Instant::now() + ELECTION;
        while Instant::now() < deadline {
            let hello = wire::ask(&mut stream, doc! { "hello": 1 })?;
            if is(&hello, "isWritablePrimary") {
                return Ok(());
            }
            if !hello.contains_key("setName") {
                initiate(&mut stream, &[place.port])?;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no primary within {ELECTION:?}")))
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        time(url)
    }
}

impl Product for StandaloneMongoDb {
    fn listing(&self) -> &'static Listing {
        &catalogue::MONGODB
    }

    fn prepare(&self, _: &Executable, place: &Place, _: &Settings) -> io::Result<()> {
        std::fs::create_dir_all(data(place))
    }

    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command {
        command(program, place, settings)
    }

    fn url(&self, place: &Place) -> String {
        format!("mongodb://127.0.0.1:{}", place.port)
    }

    fn own_url(&self, place: &Place) -> String {
        own_url(place)
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        greet(url)
    }

    fn time(&self, url: &str) -> io::Result<SystemTime> {
        time(url)
    }
}

/// Returns the command that both kinds of servers share. Both keep a journal, which locks require to be written before
/// each answer, so there is no server without persistence.
fn command(program: &Executable, place: &Place, settings: &Settings) -> Command {
    let mut command = program.command();
    command.args(["--port", &place.port.to_string(), "--bind_ip", "127.0.0.1"]);
    command.arg("--dbpath").arg(data(place)).arg("--unixSocketPrefix").arg(&place.folder);
    command.args(["--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64"]);
    // For fail points, with which cases make a server refuse what it would not refuse by itself.
    command.args(["--setParameter", "enableTestCommands=1"]);
    command.args(["--setParameter", "diagnosticDataCollectionEnabled=false"]);
    // Expired documents are removed within a second or two, instead of a minute.
    command.args(["--setParameter", "ttlMonitorSleepSecs=1"]);
    command.args(&settings.args);
    if let Some(libraries) = libraries(program.path()) {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command
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

fn data(place: &Place) -> PathBuf {
    place.folder.join("data")
}

fn socket(place: &Place) -> PathBuf {
    place.folder.join(format!("mongodb-{}.sock", place.port))
}

/// The socket is in the server's folder, so no other server can answer there. MongoDB has no such URL; only this module
/// reads it.
fn own_url(place: &Place) -> String {
    format!("unix://{}", socket(place).display())
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

fn connect(url: &str) -> io::Result<Box<dyn Stream>> {
    connect_for(url, PATIENCE)
}

/// Opens a connection whose answers may take as long as `patience`.
fn connect_for(url: &str, patience: Duration) -> io::Result<Box<dyn Stream>> {
    if let Some(path) = url.strip_prefix("unix://") {
        return connect_to_socket(Path::new(path), patience);
    }
    Ok(Box::new(connect_to_first(ServerUrl::parse(url)?.hosts(), 27017, patience)?))
}

#[cfg(unix)]
fn connect_to_socket(path: &Path, patience: Duration) -> io::Result<Box<dyn Stream>> {
    let stream = std::os::unix::net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(Box::new(stream))
}

#[cfg(not(unix))]
fn connect_to_socket(_: &Path, _: Duration) -> io::Result<Box<dyn Stream>> {
    Err(io::ErrorKind::Unsupported.into())
}

fn greet(url: &str) -> io::Result<String> {
    let answer = wire::ask(&mut connect(url)?, doc! { "buildInfo": 1 })?;
    Ok(format!("mongodb {}", answer.get_str("version").unwrap_or("of unknown version")))
}

fn time(url: &str) -> io::Result<SystemTime> {
    let answer = wire::ask(&mut connect(url)?, doc! { "hello": 1 })?;
    let time = answer.get_datetime("localTime").map_err(io::Error::other)?;
    Ok(time.to_system_time())
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
