//! `LOCK_HELD`: the locks that are held around a command, so that none of them waits for itself.

use std::env;

use onelock::{Client, Location, Name};

use crate::exit::{Exit, Failure};

const VARIABLE: &str = "LOCK_HELD";

/// A lock as every call of this program knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Backend, the server's address, and the name there.
    by_address: String,
    name: Name,
}

impl Place {
    pub(super) fn of(client: &Client, url: &str, name: &Name) -> Result<Place, Failure> {
        let info = client.info();
        let prefix = Location::parse(url)?.take_prefix()?;
        let key = prefix.key(name);
        let by_address = format!("{} {} {}", info.backend, info.server.escape_debug(), key.escape_debug());
        Ok(Place { by_address, name: name.clone() })
    }

    /// A line by the server's address, which a restart doesn't change, and one by what the server says which it is, by
    /// whatever address. While the lock was waited for, another may have taken the server's place.
    fn lines(&self, client: &Client) -> impl Iterator<Item = String> {
        [self.by_address.clone()].into_iter().chain(client.info().place(&self.name))
    }
}

/// Refuses a lock that is held around this very call.
pub(super) fn refuse_nested(place: &Place, client: &Client) -> Result<(), Failure> {
    let (around, name) = (around(), &place.name);
    match place.lines(client).any(|line| around.lines().any(|held| held == line)) {
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
pub(super) fn variable(place: &Place, client: &Client) -> (&'static str, String) {
    let lines: Vec<String> = around().lines().map(str::to_owned).chain(place.lines(client)).collect();
    (VARIABLE, lines.join("\n"))
}

fn around() -> String {
    env::var(VARIABLE).unwrap_or_default()
}
