//! `lock release`: asks the keeper to release the lock, and whether it was held until then.

use std::io;
use std::time::Duration;

use onelock::Clock;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use super::handle::{Handle, KeeperHandle, are_equal, bytes, hex, variable};
use super::socket::{Lines, connect, write_line};
use crate::args::Release;
use crate::exit::{Exit, Failure, TIMED_OUT};

/// The time that a keeper that runs may take for a word, however busy the machine is.
const WORD: Duration = Duration::from_secs(5);

impl Release {
    /// Returns success only if the lock was held all the time.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        match Handle::of_environment(&self.name)? {
            Some(Handle::Keeper(handle)) => self.by_keeper(&handle).await,
            Some(Handle::Lease(holder)) => self.end_lease(&holder).await,
            None => {
                let (name, variable) = (&self.name, variable(&self.name));
                let what = format!(
                    "nothing shows that {name:?} is this job's: ${variable} must be set to the handle that lock acquire \
                     has printed, as by eval \"$(lock acquire …)\""
                );
                Err(Failure::new(Exit::Usage, what))
            }
        }
    }

    async fn by_keeper(&self, handle: &KeeperHandle) -> Result<Exit, Failure> {
        let keeper = match connect(handle).await {
            Ok(Some(keeper)) => keeper,
            Ok(None) => {
                let what = "no keeper answers to this handle. It has released the lock and ended (by lock release, with \
                            its parent, or by --max-hold), or was killed; or it runs in another container";
                return Err(self.unproven(what));
            }
            Err(e) => return Err(self.unproven(&format!("its keeper can't be asked: {e}"))),
        };
        // If the keeper has gone in this moment, it answers nothing.
        let asked = json!({ "question": hex(&handle.question), "name": self.name.as_str() });
        let _: io::Result<()> = write_line(&keeper, &asked.to_string()).await;
        let (clock, mut lines) = (Clock::system(), Lines::of(&keeper));
        let silent = || self.silent(&keeper);
        let heard = parse(&clock.timeout(WORD, lines.next()).await.ok_or_else(silent)?);
        let proof = heard["proof"].as_str().and_then(bytes).unwrap_or_default();
        if !are_equal(&proof, &handle.answer) {
            let what =
                "what listens at its socket does not know this handle: it is not its keeper, or it has ended";
            return Err(self.unproven(what));
        }
        // A server that does not answer keeps the keeper until the lease ends.
        let within = Duration::from_millis(heard["within_ms"].as_u64().unwrap_or(0)).saturating_add(WORD);
        let answer = parse(&clock.timeout(within, lines.next()).await.ok_or_else(silent)?);
        self.judge(&answer)
    }

    fn judge(&self, answer: &Value) -> Result<Exit, Failure> {
        let status = answer["status"].as_i64().and_then(|status| i32::try_from(status).ok());
        let message = answer["message"].as_str().unwrap_or("its keeper has ended without an answer");
        let exit = match status {
            Some(0) => return Ok(Exit::Status(0)),
            Some(status) if status == i32::from(TIMED_OUT) => Exit::HeldForLong(TIMED_OUT),
            Some(status) if status == Exit::Usage.code() => Exit::Usage,
            Some(_) => Exit::Lost,
            None => return Err(self.unproven(message)),
        };
        Err(Failure::new(exit, message))
    }

    fn silent(&self, keeper: &UnixStream) -> Failure {
        let pid = keeper.peer_cred().ok().and_then(|of| of.pid());
        let which = pid.map_or_else(String::new, |pid| format!(", pid {pid},"));
        self.unproven(&format!(
            "its keeper{which} does not answer. If it is stopped, the lock ends with its ttl; kill -CONT lets it answer"
        ))
    }

    fn unproven(&self, why: &str) -> Failure {
        Failure::new(Exit::Lost, format!("{:?} is not proven to have been held: {why}", self.name))
    }
}

/// Parses a line of the keeper. What is none is `null`, as is the end of the keeper.
fn parse(line: &io::Result<String>) -> Value {
    line.as_ref().ok().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}
