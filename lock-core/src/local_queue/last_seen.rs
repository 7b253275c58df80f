//! The client's last view of a lock, reported to waiters whose wait runs out.

use std::time::Duration;

use crate::clock::Instant;
use crate::entry::Entry;
use crate::error::Error;

/// However short a wait is, and however late a turn comes, the server has this long for its first answer.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_millis(100);

/// The front contender's last view of the lock, as reported to waiters behind it.
#[derive(Clone, Debug, Default)]
pub(crate) enum Seen {
    /// No answer yet.
    #[default]
    Nothing,
    /// The lock is held, by a task of this client or elsewhere. Has the holder, if it was seen.
    Held(Option<Box<Entry>>),
    /// The lock was held, but that was seen before this waiter came. The contender in front waits for a wake-up and
    /// does not ask in the meantime; or its turn has just come and it has no answer yet.
    HeldBefore,
    /// The server did not answer, or its answer was lost.
    Trouble(String),
    /// The server answered that it can't take the lock at the moment.
    Refused(String),
}

impl Seen {
    fn of(error: &Error) -> Seen {
        let what = error.message().to_owned();
        if error.is_refusal() { Seen::Refused(what) } else { Seen::Trouble(what) }
    }
}

/// The last view of one lock, and the contender that had it.
#[derive(Debug, Default)]
pub(super) struct LastSeen {
    /// The last view of the lock, and its moment. A lock that a task of this client holds counts as seen now.
    seen: Option<(Instant, Seen)>,
    /// When the present contender got its turn.
    turn_came: Option<Instant>,
    held_here: bool,
}

impl LastSeen {
    /// Returns, at the moment `now`, what was seen since `since`.
    pub(super) fn since(&self, since: Instant, now: Instant) -> Seen {
        match &self.seen {
            _ if self.held_here => Seen::Held(None),
            Some((at, Seen::Held(Some(holder)))) if *at >= since => {
                let holder = Entry::clone(holder).later(now.since(*at));
                Seen::Held(Some(holder.into()))
            }
            Some((at, seen)) if *at >= since => seen.clone(),
            // Seen earlier than `since`. It counts while the contender that saw it is still in front, or while the next
            // contender has not had the time for an answer of its own.
            Some((at, Seen::Held(_))) if self.counts_in_front(*at, now) => Seen::HeldBefore,
            _ => Seen::Nothing,
        }
    }

    /// Records that a contender gets its turn.
    pub(super) fn turn_came(&mut self, now: Instant) {
        self.turn_came = Some(now);
    }

    /// Records that a task of this client holds the lock, until its turn is over.
    pub(super) fn granted(&mut self) {
        self.held_here = true;
    }

    /// Records the answer to the attempt that was sent at `asked`: the lock is held elsewhere.
    pub(super) fn held(&mut self, asked: Instant, holder: Option<&Entry>) {
        self.seen = Some((asked, Seen::Held(holder.cloned().map(Box::new))));
    }

    /// Records that the attempt that was sent at `asked` has failed.
    pub(super) fn trouble(&mut self, asked: Instant, error: &Error) {
        self.seen = Some((asked, Seen::of(error)));
    }

    /// Records the end of the contender's turn.
    pub(super) fn turn_over(&mut self, now: Instant) {
        if std::mem::take(&mut self.held_here) {
            self.seen = Some((now, Seen::Held(None)));
        }
    }

    /// Returns whether the present contender saw this itself, or had no time yet to see anything.
    fn counts_in_front(&self, seen: Instant, now: Instant) -> bool {
        self.turn_came.is_some_and(|came| seen >= came || now.since(came) < FIRST_ANSWER)
    }
}
