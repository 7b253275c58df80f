//! What the harness has to know of one product.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use super::catalogue::Listing;
use super::executable::{Account, Executable};
use super::image::Image;
use super::owned::Settings;

/// A product that can serve locks: how to start it, and how to tell that it serves.
pub trait Product: fmt::Debug + Send + Sync + 'static {
    /// Its entry in the catalogue.
    fn listing(&self) -> &'static Listing;

    /// Who runs it.
    fn account(&self) -> Account {
        Account::Ours
    }

    /// The folder with its data, from where relative paths in its arguments lead.
    fn data(&self, place: &Place) -> PathBuf {
        place.folder.clone()
    }

    /// Makes of a fresh folder what the server needs before its first start.
    fn prepare(&self, _program: &Executable, _place: &Place, _settings: &Settings) -> io::Result<()> {
        Ok(())
    }

    /// The command that starts the server there, in the foreground. What it prints is kept as its log.
    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command;

    /// What is to be done each time once it serves.
    fn started(&self, _place: &Place) -> io::Result<()> {
        Ok(())
    }

    /// How it is asked to end.
    fn farewell(&self) -> Farewell {
        Farewell::Terminate
    }

    /// Where clients connect to a server that was started there.
    fn url(&self, place: &Place) -> String;

    /// Its Unix socket, where it has one.
    fn socket(&self, _place: &Place) -> Option<PathBuf> {
        None
    }

    /// A URL at which nobody but the server started there can answer: not another that took the port first.
    fn own_url(&self, place: &Place) -> String;

    /// How such a server is started from a container image, where there is an official one.
    fn image(&self, _settings: &Settings) -> Option<Image> {
        None
    }

    /// Asks the server for a sign of life, for a second at most; tells its name and version (`redis 7.0.15`).
    ///
    /// The error never shows a password.
    fn greet(&self, url: &str) -> io::Result<String>;

    /// What the clock by which it ends leases says: how a case is certain that it was set.
    fn time(&self, _url: &str) -> io::Result<SystemTime> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "it can't be asked for its time"))
    }
}

/// The signal by which a server ends at once and in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

/// Where a server runs that was started here.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder with everything that it writes.
    pub folder: PathBuf,
    /// Where clients find it: 127.0.0.1, if it isn't on a host of its own.
    pub address: Ipv4Addr,
    /// Its port there.
    pub port: u16,
}
