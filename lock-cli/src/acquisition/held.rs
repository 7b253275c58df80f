//! `LOCK_HELD`: the locks that are held around a command, so that the command does not wait for itself.

use std::env;

use onelock::driver::Location;
use onelock::{Client, Name};

use crate::exit::{Exit, Failure};

const VARIABLE: &str = "LOCK_HELD";

/// A lock, as every call of this program identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The backend, the server's address, and the full name there.
    by_address: String,
    name: Name,
}

impl Place {
    pub(crate) fn of(client: &Client, url: &str, name: &Name) -> Result<Place, Failure> {
        let info = client.info();
        let prefix = Location::parse(url)?.take_prefix()?;
        let key = prefix.key(name);
        let by_address = format!("{} {} {}", info.backend, info.server.escape_debug(), key.escape_debug());
        Ok(Place { by_address, name: name.clone() })
    }

    /// Returns the lock's lines: one by the server's address, which stays the same after a restart, and one by the
    /// server's identity if it has one, which is the same for every address. The identity is read anew, because another
    /// server may have taken over while the call waited.
    fn lines(&self, client: &Client) -> impl Iterator<Item = String> {
        [self.by_address.clone()].into_iter().chain(client.info().place(&self.name))
    }
}

/// Refuses a lock that is held around this call already.
pub(crate) fn refuse_nested(place: &Place, client: &Client) -> Result<(), Failure> {
    let (around, name) = (around(), &place.name);
    match place.lines(client).any(|line| around.lines().any(|held| held == line)) {
        false => Ok(()),
        true => Err(Failure::new(
            Exit::Usage,
            format!(
                "{name:?} is held around this command already, so the command would wait for itself; \
                 if it outlives that lock, unset {VARIABLE}"
            ),
        )),
    }
}

/// Returns the variable that the command gets.
pub(crate) fn variable(place: &Place, client: &Client) -> (&'static str, String) {
    let lines: Vec<String> = around().lines().map(str::to_owned).chain(place.lines(client)).collect();
    (VARIABLE, lines.join("\n"))
}

fn around() -> String {
    env::var(VARIABLE).unwrap_or_default()
}
