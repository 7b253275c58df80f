//! What happens to a lock that this program waits for or holds, for a program that reads it line by line.

use std::sync::atomic::{AtomicBool, Ordering};
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
    /// This process of the command can't be ended.
    GoesOn { survivor: Survivor },
    /// The lock was held until its release.
    Released,
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
            Event::Failed { status, message } => {
                format!("failed status={status} message={}", one_line(message))
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}

/// Adds to `options` that `tell` is called when a renewal fails, and when one succeeds after that.
pub(crate) fn with_troubles(options: Options, tell: impl Fn(Event<'_>) + Send + Sync + 'static) -> Options {
    let in_trouble = AtomicBool::new(false);
    options.observer(move |event| match event {
        onelock::Event::Trouble { operation: "renew", error, .. } => {
            in_trouble.store(true, Ordering::Relaxed);
            tell(Event::Trouble { error: &error.to_string() });
        }
        onelock::Event::Renewed { .. } if in_trouble.swap(false, Ordering::Relaxed) => tell(Event::Renewed),
        _ => {}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
