//! `LOCK_HELD`: the locks that are held around a command, so that none of them waits for itself.

use std::env;
use std::fmt;

use onelock::{Client, Location, Name};

use crate::exit::{Exit, Failure};

const VARIABLE: &str = "LOCK_HELD";

/// A lock as every call of this program on this server knows it: backend, server, and the name there, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(String);

impl Place {
    pub(super) fn of(client: &Client, url: &str, name: &Name) -> Result<Place, Failure> {
        let info = client.info();
        let prefix = Location::parse(url)?.take_prefix()?;
        let name = prefix.key(name);
        Ok(Place(format!("{} {} {}", info.backend, info.server.escape_debug(), name.escape_debug())))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Refuses a lock that is held around this very call.
pub(super) fn refuse_nested(place: &Place, name: &Name) -> Result<(), Failure> {
    match around().lines().any(|held| held == place.0) {
        false => Ok(()),
        true => Err(Failure::new(
            Exit::Usage,
            format!(
                "{name:?} is held around this command already, which would wait for itself; \
                 if it outlives that lock, unset {VARIABLE}"
            ),
        )),
    }
}

/// What the command finds in its environment.
pub(super) fn variable(place: &Place) -> (&'static str, String) {
    let around = around();
    let lines: Vec<&str> = around.lines().chain([place.0.as_str()]).collect();
    (VARIABLE, lines.join("\n"))
}

fn around() -> String {
    env::var(VARIABLE).unwrap_or_default()
}
