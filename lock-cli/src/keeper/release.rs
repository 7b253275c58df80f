//! `lock release`: asks the keeper to release the lock, and whether it was held until then.

use std::env;
use std::path::PathBuf;

use serde_json::Value;
use tokio::net::UnixStream;

use super::acquire::own_parent;
use super::order::{read_line, write_line};
use super::rendezvous::{Rendezvous, connect};
use crate::args::Release;
use crate::exit::{Exit, Failure, TIMED_OUT};

/// What a keeper is asked.
pub(super) const REQUEST: &str = "release";

/// The variable with the keeper's socket, as `lock acquire` prints it.
const VARIABLE: &str = "LOCK_KEEPER";

impl Release {
    /// Returns success only if the keeper says that the lock was held all the time.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let url = self.server.url()?;
        let rendezvous = Rendezvous::of(&url, &self.name)?;
        let mut keepers = Vec::new();
        for socket in self.sockets(&rendezvous)? {
            keepers.extend(connect(&socket)?);
        }
        let keeper = match keepers.len() {
            0 => return Err(self.unproven(self.no_keeper())),
            1 => keepers.remove(0),
            n => {
                let what = format!("there are {n} keepers of {:?}: give --keeper or --parent", self.name);
                return Err(Failure::new(Exit::Usage, what));
            }
        };
        keeper.set_nonblocking(true)?;
        self.ask(&UnixStream::from_std(keeper)?).await
    }

    /// Returns the sockets of the keepers that may be meant.
    fn sockets(&self, rendezvous: &Rendezvous) -> Result<Vec<PathBuf>, Failure> {
        if let Some(path) = &self.keeper {
            return match rendezvous.is_of_this_lock(path) {
                true => Ok(vec![path.clone()]),
                false => Err(Failure::new(
                    Exit::Usage,
                    format!("{} is no keeper of {:?} on this server", path.display(), self.name),
                )),
            };
        }
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        match (named.filter(|path| rendezvous.is_of_this_lock(path)), self.parent) {
            (Some(path), None) => Ok(vec![path]),
            (_, Some(parent)) => Ok(rendezvous.of_parent(parent)?),
            (None, None) => Ok(rendezvous.of_parent(own_parent()?)?),
        }
    }

    fn no_keeper(&self) -> &'static str {
        match (&self.keeper, self.parent, env::var_os(VARIABLE)) {
            (None, None, None) => {
                "no keeper holds it for the process that calls lock release: it was lost, released or never acquired. If \
                 it was acquired for another process, name that by --parent, or hand on what lock acquire has printed: \
                 LOCK_KEEPER"
            }
            _ => "no keeper holds it here: it was lost, released, or never acquired",
        }
    }

    async fn ask(&self, keeper: &UnixStream) -> Result<Exit, Failure> {
        // If the keeper has gone in this moment, it answers nothing.
        let _: std::io::Result<()> = write_line(keeper, REQUEST).await;
        let answer = read_line(keeper).await?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let message = answer["message"].as_str().unwrap_or("its keeper has ended without an answer");
        match answer["status"].as_u64() {
            Some(0) => Ok(Exit::Status(0)),
            Some(status) if status == u64::from(TIMED_OUT) => {
                Err(Failure::new(Exit::HeldForLong(TIMED_OUT), message))
            }
            Some(_) => Err(Failure::new(Exit::Lost, message)),
            None => Err(self.unproven(message)),
        }
    }

    fn unproven(&self, why: &str) -> Failure {
        Failure::new(Exit::Lost, format!("{:?} is not proven to have been held: {why}", self.name))
    }
}
