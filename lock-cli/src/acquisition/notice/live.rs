//! The line of a terminal that changes while the program waits.

use std::time::Duration;

use onelock::{Clock, Entry, Instant, Lock, OwnerBytes};

use super::{Seen, in_seconds, who};
use crate::print;

/// The pause between two looks.
const EACH: Duration = Duration::from_secs(1);
/// By how much more than this a lease must end later than before to have been renewed: the two looks took different
/// times.
const SAME: Duration = Duration::from_millis(100);

/// The line. It is gone when this is dropped: the command, or the shell's prompt, begins on a clean line.
#[derive(Debug, Default)]
pub(super) struct LiveLine {
    is_shown: bool,
    renewals: Renewals,
}

impl LiveLine {
    /// Shows who holds the lock, again and again.
    pub(super) async fn show<T>(mut self, lock: &Lock, clock: &Clock) -> T {
        loop {
            let seen = Seen::now(lock).await;
            let text = match &seen {
                Seen::Held(holder) if !holder.is_done() => self.held(holder, clock.now()),
                Seen::Held(_) | Seen::Free | Seen::Unknown(_) => seen.text(),
            };
            self.is_shown = true;
            replace(&text);
            clock.sleep(EACH).await;
        }
    }

    /// Describes the holder. It comes first, because a narrow terminal has no room for the rest.
    fn held(&mut self, holder: &Entry, now: Instant) -> String {
        let who = who(holder);
        let since = holder.since.map_or(String::new(), |since| format!(" for {}", in_seconds(since)));
        let renewed = self.renewals.last(holder, now);
        let renewed = renewed.map_or(String::new(), |at| format!(", renewed {} ago", in_seconds(at)));
        format!("held by {who}{since}{renewed}")
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        if self.is_shown {
            print::to_stderr("\r\x1b[K".to_owned());
        }
    }
}

/// The holder's renewals, as the looks so far show them.
#[derive(Debug, Default)]
struct Renewals {
    /// The holder, and when its lease was to end.
    holder: Option<(OwnerBytes, Instant)>,
    /// When it was last seen to have renewed.
    renewed_at: Option<Instant>,
}

impl Renewals {
    /// Returns how long ago the holder was last seen to have renewed: its lease then ended later than before.
    fn last(&mut self, holder: &Entry, now: Instant) -> Option<Duration> {
        let ends = now + holder.expires_in?;
        match &self.holder {
            Some((owner, before)) if *owner == holder.owner => {
                if ends > *before + SAME {
                    self.renewed_at = Some(now);
                }
            }
            _ => self.renewed_at = None,
        }
        self.holder = Some((holder.owner.clone(), ends));
        self.renewed_at.map(|at| now.since(at))
    }
}

/// Replaces the line before. Cut to the terminal's width: a longer line would wrap, and its first part would stay.
fn replace(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width()).collect();
    print::to_stderr_if_idle(format!("\r{text}\x1b[K"));
}

/// Returns how many characters fit into a line.
fn width() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stderr()) {
        return match size.ws_col {
            0 => 79,
            columns => usize::from(columns) - 1,
        };
    }
    79
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ends_later_was_renewed() {
        let at = |seconds: u64| Instant::from_origin(Duration::from_secs(seconds));
        let holder = |owner: u8, left: u64| {
            let mut holder = Entry::new(OwnerBytes::new([owner; 16]));
            holder.expires_in = Some(Duration::from_secs(left));
            holder
        };
        let mut renewals = Renewals::default();
        assert_eq!(renewals.last(&holder(1, 30), at(100)), None);
        assert_eq!(renewals.last(&holder(1, 20), at(110)), None, "the same lease");
        assert_eq!(renewals.last(&holder(1, 29), at(111)), Some(Duration::ZERO), "a later end");
        assert_eq!(renewals.last(&holder(1, 25), at(115)), Some(Duration::from_secs(4)));
        assert_eq!(renewals.last(&holder(2, 30), at(116)), None, "another holder");
        let without = Entry::new(OwnerBytes::new([2; 16]));
        assert_eq!(renewals.last(&without, at(117)), None, "the server does not say");
    }
}
