//! What a person at a terminal sees while the lock is waited for.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use onelock::{Clock, Entry, Guard, Lock};

/// Nobody reads a line that is gone again sooner.
const FIRST: Duration = Duration::from_millis(300);
const EACH: Duration = Duration::from_secs(1);

/// What `acquire` answers. While it doesn't, a terminal shows who holds the lock, since when, and until when.
pub(super) async fn while_waiting(
    acquire: impl Future<Output = onelock::Result<Guard>>,
    lock: &Lock,
    clock: &Clock,
) -> onelock::Result<Guard> {
    if !io::stderr().is_terminal() {
        return acquire.await;
    }
    let shown = Cell::new(Shown::Nothing);
    tokio::select! {
        biased;
        outcome = acquire => {
            shown.get().wipe();
            outcome
        }
        never = show(lock, clock, &shown) => never,
    }
}

/// What stands in the last line of the terminal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Notice,
}

impl Shown {
    fn wipe(self) {
        if self == Shown::Notice {
            print("\r\x1b[K");
        }
    }
}

async fn show<T>(lock: &Lock, clock: &Clock, shown: &Cell<Shown>) -> T {
    clock.sleep(FIRST).await;
    loop {
        let what = match lock.inspect().await.map(|inspection| inspection.holder) {
            Ok(Some(holder)) => in_short(&holder),
            Ok(None) => "free a moment ago".to_owned(),
            Err(error) => error.message().to_owned(),
        };
        shown.set(Shown::Notice);
        line(&format!("waiting for {:?}: {what}", lock.name().as_str()));
        clock.sleep(EACH).await;
    }
}

/// What changes stands first: the rest may be longer than the line.
fn in_short(holder: &Entry) -> String {
    let since = holder.since.map_or(String::new(), |since| format!(" for {} s", since.as_secs()));
    let left = holder.expires_in.map_or(String::new(), |left| format!(", ends in {} s", left.as_secs()));
    let who = holder.label.clone().unwrap_or_else(|| holder.owner.to_string());
    format!("held{since}{left}, by {who}")
}

/// In the place of the line before. One that is longer than the terminal is wide would leave its beginnings behind.
fn line(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width()).collect();
    print(&format!("\r{text}\x1b[K"));
}

fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    // A terminal that went away shows nothing.
    let _: io::Result<()> = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// How many characters fit into a line.
fn width() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr()) {
        return match size.ws_col {
            0 => 79,
            columns => usize::from(columns) - 1,
        };
    }
    79
}
