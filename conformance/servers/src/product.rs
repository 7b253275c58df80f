//! Everything that the harness has to know about one product.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::time::SystemTime;

use super::catalogue::Listing;
use super::executable::{Account, Executable};
use super::image::Image;
use super::settings::Settings;

/// A product that can serve locks: how to start it, and how to see that it serves.
pub trait Product: fmt::Debug + Send + Sync + 'static {
    /// Returns its entry in the catalogue.
    fn listing(&self) -> &'static Listing;

    /// Returns which account runs it.
    fn account(&self) -> Account {
        Account::Ours
    }

    /// Returns the folder with its data, to which relative paths in its arguments refer. Its preparation makes it.
    fn data(&self, place: &Place) -> PathBuf {
        place.folder.join("data")
    }

    /// Prepares a new folder for the server's first start.
    ///
    /// # Errors
    ///
    /// If the folder can't be prepared.
    fn prepare(&self, _program: &Executable, _place: &Place, _settings: &Settings) -> io::Result<()> {
        Ok(())
    }

    /// Returns the command that starts the server there, in the foreground. Its output is kept as its log.
    fn command(&self, program: &Executable, place: &Place, settings: &Settings) -> Command;

    /// Does what has to be done each time when the server serves.
    ///
    /// # Errors
    ///
    /// If that fails.
    fn started(&self, _place: &Place) -> io::Result<()> {
        Ok(())
    }

    /// Returns the URL of a server that was started there, for clients.
    fn url(&self, place: &Place) -> String;

    /// Returns its Unix socket, if it has one.
    fn socket(&self, _place: &Place) -> Option<PathBuf> {
        None
    }

    /// Returns a URL at which no server can answer except the one that was started there, even if another one took the
    /// port first.
    fn own_url(&self, place: &Place) -> String;

    /// Returns how such a server is started from a container image, if there is an official one.
    fn image(&self, _settings: &Settings) -> Option<Image> {
        None
    }

    /// Asks the server whether it answers, for a second at most. Returns its name and version (`redis 7.0.15`).
    ///
    /// # Errors
    ///
    /// If it does not answer. The error never shows a password.
    fn greet(&self, url: &str) -> io::Result<String>;

    /// Returns the time of the clock by which the server ends leases. A case checks with it that the clock was set.
    ///
    /// # Errors
    ///
    /// If the server can't be asked for its time.
    fn time(&self, _url: &str) -> io::Result<SystemTime> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "it can't be asked for its time"))
    }
}

/// Where a server runs that was started here.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder with everything that it writes.
    pub folder: PathBuf,
    /// Where clients find it: 127.0.0.1, unless it is on a host of its own.
    pub address: Ipv4Addr,
    /// Its port at that address.
    pub port: u16,
}
