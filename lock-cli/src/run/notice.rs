//! What users see while the program waits for the lock.

use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::time::Duration;

use onelock::{Clock, Entry, Lock};

use super::hold::Hold;
use crate::print;

/// The wait before the first line. A line that disappears sooner can't be read.
const FIRST: Duration = Duration::from_millis(300);
const EACH: Duration = Duration::from_secs(1);

/// How much a user is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Nothing: stderr is no terminal, and output may be sent as mail.
    Nothing,
    /// One line for a log: which lock is waited for, on which server.
    Once,
    /// For a user at a terminal: that line, and below it a line that changes: who holds the lock, for how long, and
    /// until when.
    Live,
}

impl Notice {
    pub(super) fn of(verbose: bool) -> Notice {
        match (io::stderr().is_terminal(), verbose) {
            (true, _) => Notice::Live,
            (false, true) => Notice::Once,
            (false, false) => Notice::Nothing,
        }
    }

    /// Waits for `acquire` and returns its outcome. Meanwhile tells the user.
    pub(super) async fn while_waiting(
        self,
        acquire: impl Future<Output = onelock::Result<Hold>>,
        lock: &Lock,
        server: &str,
        clock: &Clock,
    ) -> onelock::Result<Hold> {
        let shown = Cell::new(Shown::Nothing);
        tokio::select! {
            biased;
            outcome = acquire => {
                shown.get().wipe();
                outcome
            }
            never = self.tell(lock, server, clock, &shown) => never,
        }
    }

    async fn tell<T>(self, lock: &Lock, server: &str, clock: &Clock, shown: &Cell<Shown>) -> T {
        clock.sleep(FIRST).await;
        if self != Notice::Nothing {
            print::note(format!("waiting for {:?} on {server}", lock.name().as_str()));
        }
        match self {
            Notice::Live => show(lock, clock, shown).await,
            Notice::Once | Notice::Nothing => std::future::pending().await,
        }
    }
}

/// What the last line of the terminal shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    Holder,
}

impl Shown {
    fn wipe(self) {
        if self == Shown::Holder {
            print::to_stderr("\r\x1b[K");
        }
    }
}

async fn show<T>(lock: &Lock, clock: &Clock, shown: &Cell<Shown>) -> T {
    loop {
        let what = match lock.inspect().await.map(|inspection| inspection.holder) {
            Ok(Some(holder)) => in_short(&holder),
            Ok(None) => "free a moment ago".to_owned(),
            Err(error) => error.message().to_owned(),
        };
        shown.set(Shown::Holder);
        line(&what);
        clock.sleep(EACH).await;
    }
}

/// Describes the holder. The changing parts come first, because the line may be too short for the rest.
fn in_short(holder: &Entry) -> String {
    let since = holder.since.map_or(String::new(), |since| format!(" for {} s", since.as_secs()));
    let left = holder.expires_in.map_or(String::new(), |left| format!(", ends in {} s", left.as_secs()));
    let who = holder.label.clone().unwrap_or_else(|| holder.owner.to_string());
    format!("held{since}{left}, by {who}")
}

/// Replaces the line before. Cut to the terminal's width: a longer line would wrap, and its first part would stay.
fn line(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width()).collect();
    print::to_stderr(&format!("\r{text}\x1b[K"));
}

/// Returns how many characters fit into a line.
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
