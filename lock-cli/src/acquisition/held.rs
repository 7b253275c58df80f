//! `LOCK_HELD`: the locks that are held around a command, so that the command does not wait for itself.

use std::env;

use lock_core::toolkit::Location;
use onelock::{Client, FencingToken, Name};

use crate::exit::{Exit, Failure};

/// The variable. Each of its lines is a token and a lock.
pub(crate) const VARIABLE: &str = "LOCK_HELD";
/// The variable gets no longer than this. A job that takes one lock after the other would otherwise fill what a process may have as its
/// environment, and could start no command any more, not even `lock release`.
const LONGEST: usize = 16 << 10;

/// A lock, as every call of this program identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockIdentity {
    /// The backend, the server's address, and the full name there.
    by_address: String,
    name: Name,
}

impl LockIdentity {
    pub(crate) fn of(client: &Client, url: &str, name: &Name) -> Result<LockIdentity, Failure> {
        let info = client.info();
        let prefix = Location::parse(url)?.take_prefix()?;
        let key = prefix.key(name);
        let by_address = format!("{} {} {}", info.backend, info.server.escape_debug(), key.escape_debug());
        Ok(LockIdentity { by_address, name: name.clone() })
    }

    /// Returns the lock's lines: one by the server's address, which stays the same after a restart, and one by the
    /// server's identity if it has one, which is the same for every address. The identity is read anew, because another
    /// server may have taken over while the call waited.
    fn lines(&self, client: &Client) -> impl Iterator<Item = String> {
        [self.by_address.clone()].into_iter().chain(client.info().place(&self.name))
    }
}

/// Refuses a lock that is held around this call already: the call would wait for itself. A lock of another token is none
/// of those that were held when the variable was set.
pub(crate) async fn refuse_nested(identity: &LockIdentity, client: &Client) -> Result<(), Failure> {
    let name = &identity.name;
    let tokens = tokens_around(identity, client);
    if tokens.is_empty() {
        return Ok(());
    }
    let holder = client.lock(name.as_str()).build()?.inspect().await?.holder;
    match holder.map(|holder| holder.token) {
        // Where the server doesn't say the token, the variable counts.
        Some(token) if token.is_none_or(|token| tokens.contains(&token)) => Err(Failure::new(
            Exit::Usage,
            format!(
                "{name:?} is held around this command already, so the command would wait for itself; \
                 if it outlives that lock, unset {VARIABLE}"
            ),
        )),
        _ => Ok(()),
    }
}

/// Returns the variable's value for what runs under this lock: with the locks that are held around it.
pub(crate) fn lines(identity: &LockIdentity, client: &Client, token: FencingToken) -> String {
    let places: Vec<String> = identity.lines(client).collect();
    let mut lines: Vec<String> = around().lines().map(str::to_owned).collect();
    // What is left of an earlier hold.
    lines.retain(|line| parse(line).is_none_or(|(_, held)| places.iter().all(|place| place != held)));
    lines.extend(places.iter().map(|place| format!("{token} {place}")));
    last_of(&lines).join("\n")
}

/// Returns as many of the last lines as the variable has room for.
fn last_of(lines: &[String]) -> &[String] {
    let mut left = LONGEST;
    let fits = |line: &&String| left.checked_sub(line.len() + 1).inspect(|rest| left = *rest).is_some();
    let count = lines.iter().rev().take_while(fits).count();
    &lines[lines.len() - count..]
}

/// Returns the tokens with which this lock was held around this call.
fn tokens_around(identity: &LockIdentity, client: &Client) -> Vec<FencingToken> {
    let (around, places) = (around(), identity.lines(client).collect::<Vec<_>>());
    let held = around.lines().filter_map(parse).filter(|(_, held)| places.iter().any(|place| place == held));
    held.map(|(token, _)| token).collect()
}

fn parse(line: &str) -> Option<(FencingToken, &str)> {
    let (token, place) = line.split_once(' ')?;
    Some((FencingToken::new(token.parse().ok()?)?, place))
}

fn around() -> String {
    env::var(VARIABLE).unwrap_or_default()
}
