//! Events of a lock that this program waits for or holds, for a program that reads them line by line.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use onelock::{Entry, FencingToken, LossReason, Name, Options};
use serde_json::{Value, json};

use crate::look::{entry_json, millis};
use crate::os::{Found, Survivor};

/// An event of a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// The server can't be reached yet.
    Unreachable { error: &'a str },
    /// The call waits for the lock, for so long already.
    Waiting { server: &'a str, waited: Duration, holder: Option<&'a Entry> },
    /// The lock is acquired, and certain for so long without a renewal.
    Held { token: FencingToken, valid_for: Duration },
    /// A renewal failed, and is repeated.
    Trouble { error: &'a str },
    /// A renewal succeeded after trouble.
    Renewed,
    /// The lock is lost.
    Lost { reason: LossReason },
    /// The command has ended and left so many processes running, of which one is named. They were killed.
    LeftBehind { count: u32, found: Found },
    /// A process of the command can't be ended.
    GoesOn { survivor: Survivor },
    /// The lock was held until its release.
    Released,
    /// The work is done, and the lock is kept to the end of its slot.
    Kept,
    /// The call has failed.
    Failed { status: i32, message: &'a str },
}

impl Event<'_> {
    /// Returns the event as one line of JSON.
    pub(crate) fn json(&self, name: &Name) -> String {
        let mut fields = self.fields();
        fields["name"] = Value::from(name.as_str());
        fields.to_string()
    }

    /// Returns the event of a call that has no lock yet.
    pub(crate) fn without_a_name(&self) -> String {
        self.fields().to_string()
    }

    fn fields(&self) -> Value {
        match *self {
            Event::Unreachable { error } => json!({ "event": "unreachable", "error": error }),
            Event::Waiting { server, waited, holder } => json!({
                "event": "waiting",
                "server": server,
                "waited_ms": millis(waited),
                "holder": holder.map(entry_json),
            }),
            Event::Held { token, valid_for } => {
                json!({ "event": "held", "token": token.get(), "valid_ms": millis(valid_for) })
            }
            Event::Trouble { error } => json!({ "event": "trouble", "error": error }),
            Event::Renewed => json!({ "event": "renewed" }),
            Event::Lost { reason } => json!({ "event": "lost", "reason": reason.as_str() }),
            Event::LeftBehind { count, found } => {
                json!({ "event": "left_behind", "count": count, "pid": found.pid, "process": found.to_string() })
            }
            Event::GoesOn { survivor } => json!({
                "event": "goes_on",
                "pid": survivor.found.pid,
                "process": survivor.found.to_string(),
                "reason": survivor.why.as_str(),
            }),
            Event::Released => json!({ "event": "released" }),
            Event::Kept => json!({ "event": "kept" }),
            Event::Failed { status, message } => {
                json!({ "event": "failed", "status": status, "message": message })
            }
        }
    }

    /// Returns the event as a line of words for a shell: the event, then its fields. The last field may have blanks.
    pub(crate) fn words(&self) -> String {
        match *self {
            Event::Unreachable { error } => format!("unreachable error={}", one_line(error)),
            Event::Waiting { server, .. } => format!("waiting server={}", one_line(server)),
            Event::Held { token, valid_for } => format!("held token={token} valid_ms={}", millis(valid_for)),
            Event::Trouble { error } => format!("trouble error={}", one_line(error)),
            Event::Renewed => "renewed".to_owned(),
            Event::Lost { reason } => format!("lost reason={}", reason.as_str()),
            Event::LeftBehind { count, found } => format!("left_behind count={count} pid={}", found.pid),
            Event::GoesOn { survivor } => {
                format!("goes_on pid={} reason={}", survivor.found.pid, survivor.why.as_str())
            }
            Event::Released => "released".to_owned(),
            Event::Kept => "kept".to_owned(),
            Event::Failed { status, message } => {
                format!("failed status={status} message={}", one_line(message))
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// Adds to `options` that `tell` is called when a renewal fails otherwise than the last one, and when one succeeds after
/// that.
pub(crate) fn with_troubles(options: Options, tell: impl Fn(Event<'_>) + Send + Sync + 'static) -> Options {
    let told = Mutex::new(None::<String>);
    options.observer(move |event| {
        let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            onelock::Event::Trouble { operation: "renew", error, .. } => {
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    tell(Event::Trouble { error: &error });
                }
                *told = Some(error);
            }
            onelock::Event::Renewed { .. } if told.take().is_some() => tell(Event::Renewed),
            _ => {}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn equal_troubles_are_told_once() -> onelock::Result<()> {
        let (sender, told) = std::sync::mpsc::channel();
        let tell = move |event: Event<'_>| sender.send(event.words()).unwrap_or_default();
        let server = onelock::memory::Memory::new();
        let client = server.client_with(with_troubles(Options::default(), tell)).await?;
        let guard = client.lock("report").build()?.acquire().await?;
        for _ in 0..2 {
            server.disconnect();
            tokio::time::sleep(Duration::from_secs(15)).await;
            server.reconnect();
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        drop(guard);
        let told: Vec<String> = told.try_iter().collect();
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[0].starts_with("trouble error=") && told[0] == told[2], "{told:?}");
        assert!(told[1] == "renewed" && told[3] == "renewed", "{told:?}");
        Ok(())
    }

    #[test]
    fn an_event_is_one_line() {
        let name = Name::new("a\"b").unwrap();
        let trouble = Event::Trouble { error: "no\nanswer" };
        assert_eq!(trouble.words(), "trouble error=no answer");
        let json: Value = serde_json::from_str(&trouble.json(&name)).unwrap();
        assert_eq!(json, json!({ "event": "trouble", "error": "no\nanswer", "name": "a\"b" }));
        assert!(!trouble.json(&name).contains('\n'));
        assert_eq!(Event::Lost { reason: LossReason::Revoked }.words(), "lost reason=revoked");
    }
}
