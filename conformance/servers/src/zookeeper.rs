//! ZooKeeper: a standalone server, and an ensemble of three.

mod ensemble;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::catalogue::{self, Listing};
use super::executable::Executable;
use super::product::{Place, Product};
use super::server_url::{ServerUrl, exchange};
use super::settings::Settings;

/// A standalone server. Its clock cannot be set: sessions end by Java's monotonic clock. [Arguments](Settings::args)
/// are lines of its configuration.
#[derive(Debug)]
pub struct ZooKeeper;

impl Product for ZooKeeper {
    fn listing(&self) -> &'static Listing {
        &catalogue::ZOOKEEPER
    }

    fn prepare(&self, _: &Executable, place: &Place, settings: &Settings) -> io::Result<()> {
        fs::create_dir_all(self.data(place))?;
        fs::write(configuration(place), lines(place, settings))
    }

    fn command(&self, program: &Executable, place: &Place, _: &Settings) -> Command {
        let mut command = program.command();
        command.current_dir(&place.folder).arg("start-foreground").arg(configuration(place));
        command.env("JMXDISABLE", "true").env("ZOOPIDFILE", place.folder.join("pid"));
        // It is one of several on the machine, and does not run for long.
        command.env("JVMFLAGS", FLAGS).env("ZOO_LOG_DIR", &place.folder);
        command
    }

    fn url(&self, place: &Place) -> String {
        format!("zk://{}:{}?{TICK}", place.address, place.port)
    }

    /// It serves no socket, but it tells in which folder it runs.
    fn own_url(&self, place: &Place) -> String {
        format!("zk://{}:{}{}?{TICK}", place.address, place.port, place.folder.display())
    }

    fn greet(&self, url: &str) -> io::Result<String> {
        let answer = ask(url, "srvr")?;
        let version = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
        let version = version.ok_or_else(|| io::Error::other(first_line(&answer)))?;
        let folder = ServerUrl::parse(url)?.path();
        if fs::exists(PathBuf::from(folder).join(CONFIGURATION))? && !is_in(url, folder)? {
            return Err(io::Error::other("another server answers at its port"));
        }
        Ok(format!("zookeeper {}", version.split(['-', ',']).next().unwrap_or(version)))
    }
}

const CONFIGURATION: &str = "zoo.cfg";
/// The part of its configuration that clients have to know.
const TICK: &str = "tick=100ms";
/// Empty containers are removed within a second or two, instead of a minute. A full run has 200,000 names below the root,
/// for each of which the server keeps figures: several hundred MB.
const FLAGS: &str = "-Xms64m -Xmx1g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \
                     -Dznode.container.checkIntervalMs=1000 -Dznode.container.maxPerMinute=100000000";

fn configuration(place: &Place) -> PathBuf {
    place.folder.join(CONFIGURATION)
}

/// Ticks are short, so that sessions can be short. Every write is synced, as by default.
fn lines(place: &Place, settings: &Settings) -> String {
    format!(
        "dataDir={}\nclientPort={}\nclientPortAddress={}\ntickTime=100\nmaxSessionTimeout=600000\n\
         maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\npreAllocSize=1024\n{}\n",
        ZooKeeper.data(place).display(),
        place.port,
        place.address,
        settings.args.join("\n"),
    )
}

/// Returns whether the server at `url` runs in that folder.
fn is_in(url: &str, folder: &str) -> io::Result<bool> {
    Ok(ask(url, "envi")?.lines().any(|line| line.strip_prefix("user.dir=") == Some(folder)))
}

/// Returns the answer to a four-letter command, from the first of the hosts that can be reached.
fn ask(url: &str, word: &str) -> io::Result<String> {
    exchange(url, 2181, word)
}

fn first_line(answer: &str) -> String {
    format!("it answers: {}", answer.lines().next().unwrap_or("nothing"))
}
