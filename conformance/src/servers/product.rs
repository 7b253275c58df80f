//! What the harness has to know of one product.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::catalogue::Listing;
use super::owned::Settings;

/// A product that can serve locks: how to start it, and how to tell that it serves.
pub trait Product: fmt::Debug + Send + Sync + 'static {
    /// Its entry in the catalogue.
    fn listing(&self) -> &'static Listing;

    /// Makes of a fresh folder what the server needs before its first start.
    fn prepare(&self, _program: &Path, _place: &Place) -> io::Result<()> {
        Ok(())
    }

    /// The command that starts the server there, in the foreground. What it prints is kept as its log.
    fn command(&self, program: &Path, place: &Place, settings: &Settings) -> Command;

    /// Where clients connect to a server that was started there.
    fn url(&self, place: &Place) -> String;

    /// Its Unix socket, where it has one.
    fn socket(&self, _place: &Place) -> Option<PathBuf> {
        None
    }

    /// A URL at which nobody but the server started there can answer: not another that took the port first.
    fn own_url(&self, place: &Place) -> String;

    /// Asks the server for a sign of life, for a second at most; tells its name and version (`redis 7.0.15`).
    ///
    /// The error never shows a password.
    fn greet(&self, url: &str) -> io::Result<String>;

    /// Makes of a server that answers one that serves, a replica set for one; whether it does. Asked again until it does.
    fn settle(&self, _place: &Place) -> io::Result<bool> {
        Ok(true)
    }

    /// What the clock by which it ends leases says: how a case is certain that it was set.
    fn time(&self, _url: &str) -> io::Result<SystemTime> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "it can't be asked for its time"))
    }
}

/// Where a server runs that was started here.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder with everything that it writes.
    pub folder: PathBuf,
    /// Its port on 127.0.0.1.
    pub port: u16,
}
