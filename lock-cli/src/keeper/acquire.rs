//! `lock acquire`: starts the keeper and waits until it has the lock.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::getppid;
use serde_json::Value;
use tokio::net::UnixStream;

use super::hold::KEEP;
use super::order::{Granted, Order, read_line, write_line};
use crate::args::{Acquire, Parent};
use crate::exit::{Exit, Failure};
use crate::os::{Signals, own_program};
use crate::print;

impl Acquire {
    /// Returns when the keeper has the lock and the answer is printed, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let parent = self.parent()?;
        let (mut keeper, channel) = start(parent)?;
        let line = tokio::select! {
            biased;
            signal = signals.next() => {
                // The keeper withdraws, and leaves nothing on the server.
                drop(channel);
                keeper.wait()?;
                return Ok(Exit::Signal(signal.number()));
            }
            line = read_line(&channel) => line?,
        };
        let Some(granted) = Granted::parse(&line) else {
            // The keeper has said why, on our stderr.
            let status = keeper.wait()?;
            return Ok(status.code().map_or(Exit::System, Exit::Status));
        };
        if self.parent.is_none() && own_parent().ok() != Some(parent) {
            return Err(Failure::new(Exit::System, "the process that has started lock acquire has ended"));
        }
        // If it fails, the channel is closed, and the keeper releases the lock.
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            told = print::answer(self.answer(&granted)) => told?,
        }
        write_line(&channel, "").await?;
        Ok(Exit::Status(0))
    }

    /// Returns the process whose end ends the hold.
    fn parent(&self) -> Result<Parent, Failure> {
        match (self.parent, self.terms.max_hold) {
            (Some(Parent::None), None) => {
                Err(Failure::new(Exit::Usage, "with --parent none, --max-hold must say when the hold ends"))
            }
            (Some(parent), _) => Ok(parent),
            (None, _) => own_parent(),
        }
    }

    fn answer(&self, granted: &Granted) -> String {
        if self.json {
            let mut answer = granted.to_json();
            answer["event"] = Value::from("held");
            answer["name"] = Value::from(self.terms.name.as_str());
            return answer.to_string();
        }
        let keeper = quoted(&granted.keeper.to_string_lossy());
        format!("LOCK_TOKEN={}\nLOCK_KEEPER={keeper}", granted.token)
    }
}

/// Returns the process that has started this one.
pub(super) fn own_parent() -> Result<Parent, Failure> {
    let parent = getppid().map(|pid| Parent::Process(pid.as_raw_nonzero().get().unsigned_abs()));
    parent.ok_or_else(|| {
        let what =
            "the process that has started this command is outside of this PID namespace; give --parent";
        Failure::new(Exit::Usage, what)
    })
}

/// Starts the keeper. Until it has the lock it may write to our stderr.
fn start(parent: Parent) -> Result<(Child, UnixStream), Failure> {
    let (ours, theirs) = Socket::pair()?;
    let keeper = Command::new(own_program()?)
        .arg0("lock")
        .arg(KEEP)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()?;
    Order { parent, args: std::env::args_os().skip(1).collect() }.send(&ours)?;
    ours.set_nonblocking(true)?;
    Ok((keeper, UnixStream::from_std(ours)?))
}

/// Quotes a word for a shell, if that is necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_if_a_shell_would_change_it() {
        assert_eq!(quoted("/run/user/0/onelock/a.1.b"), "/run/user/0/onelock/a.1.b");
        assert_eq!(quoted("/tmp/a b'c$(d)"), "'/tmp/a b'\\''c$(d)'");
    }
}
