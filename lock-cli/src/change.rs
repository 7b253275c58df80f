//! The commands that change something on a server, and require `--yes`: `break` and `init`. Also `schema`, which shows
//! what `init` would do.

use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use onelock::{Entry, Label, Options, Revoked, When};

use crate::args::{Break, Init, Schema};
use crate::exit::{Exit, Failure};
use crate::look::millis;
use crate::print;

/// No client held the lock that was to be broken.
const NOTHING_TO_BREAK: Exit = Exit::Status(1);

impl Break {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let label = self.label.clone().unwrap_or_else(|| Label::of_program("break".as_ref()).to_string());
        let client = self.server.open(Options::default().label(label)).await?;
        let lock = client.lock(self.name.as_str()).build()?;
        let name = self.name.as_str();
        let Some(holder) = lock.inspect().await?.holder else {
            print::line(format!("{name:?} is free: no client held it"))?;
            return Ok(NOTHING_TO_BREAK);
        };
        if !self.yes {
            let what = format!("{name:?} is {holder}; to break it, add --yes");
            return Err(Failure::new(Exit::Usage, what));
        }
        let when = if self.now { When::Now } else { When::HoldersDeadline };
        let revoked = lock.revoke(&holder.owner, when).await?;
        self.tell(&holder, revoked)
    }

    fn tell(&self, holder: &Entry, revoked: Revoked) -> Result<Exit, Failure> {
        let name = self.name.as_str();
        match revoked {
            Revoked::NotHeld => {
                print::line(format!("{name:?} was not broken: the holder no longer held it"))?;
                return Ok(NOTHING_TO_BREAK);
            }
            Revoked::FreeIn(left) => {
                let left = HumanDuration(Duration::from_millis(millis(left)));
                print::line(format!(
                    "{name:?} is broken; it becomes free when its holder has stopped, in {left} at the latest; it was \
                     {holder}"
                ))?;
            }
            Revoked::Free if holder.is_done() => print::line(format!(
                "{name:?} is broken and free: the work can be done again in its slot; it was {holder}"
            ))?,
            Revoked::Free => print::line(format!(
                "{name:?} is broken and free; it was {holder}; this holder may run until it is told, or until its next \
                 renewal"
            ))?,
        }
        Ok(Exit::Status(0))
    }
}

impl Schema {
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        let schema = self.server.schema()?;
        match schema.is_empty() {
            // Not to stdout, which an administrator's tool may read.
            true => print::note("this server needs nothing"),
            false => print::line(schema.trim_end())?,
        }
        Ok(Exit::Status(0))
    }
}

impl Init {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        // Before a client is opened, because opening may already create the table.
        if !self.yes {
            let what = "this changes the server; `lock schema` shows the change, and --yes makes it";
            return Err(Failure::new(Exit::Usage, what));
        }
        let client = self.server.open(Options::default()).await?;
        let done = client.init().await?;
        print::line(if done.is_empty() { "there was nothing to do" } else { done.as_str() })?;
        Ok(Exit::Status(0))
    }
}
