//! What a lock promises to its holder and to those who wait, so that a faster one that promises less can be told from
//! one that does the same with less.

use lock_core::driver::Wakes;

/// What a peer's lock promises, by its own documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promises {
    pub(crate) token: Token,
    pub(crate) loss: Loss,
    pub(crate) renewal: Renewal,
    pub(crate) waiters: Waiters,
    pub(crate) crash: Crash,
    pub(crate) release: Release,
}

/// Whether a grant has a number by which a resource can refuse an earlier holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    None,
    /// The answer has a number of the server that rises from grant to grant. It is not offered as a token.
    Revision,
    Fencing,
}

/// How a holder learns that it may have lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Not at all.
    Never,
    /// The caller may watch the session, or the connection, that the lock depends on.
    OfSession,
    /// A signal of the lock, once a renewal has failed.
    OnFailedRenewal,
}

/// How a lock is kept for longer than its ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    ByCaller,
    Automatic,
}

/// How a waiter learns of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiters {
    /// A call on a held lock fails at once: the caller has to try again.
    None,
    Poll,
    Woken,
    WokenInOrder,
}

/// What ends the lock of a holder that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Its ttl, or its session's.
    Expiry,
    /// The end of its connection, which the server may not see for long if the machine or the network is gone.
    EndOfConnection,
}

/// What is known when a release has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The server has confirmed it, or the caller is told that the lock was lost before.
    Confirmed,
    /// The server has answered. Whether the lock was still held until then is not told.
    Unchecked,
    /// It goes on in the background.
    Background,
}

/// A promise of the library that a peer doesn't give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    Token,
    Loss,
    Renewal,
    Waiting,
    WakeUps,
    Expiry,
    ConfirmedRelease,
}

impl Promises {
    /// Returns which promises of the library it lacks on a server on which the library's waiters learn of a release as
    /// `wakes` says.
    pub(crate) fn lacks(&self, wakes: Wakes) -> Vec<Lack> {
        let lacks = [
            (Lack::Token, self.token == Token::None),
            // The library tells a holder at the lock's deadline at the latest. No signal of a peer has such a bound.
            (Lack::Loss, true),
            (Lack::Renewal, self.renewal == Renewal::ByCaller),
            (Lack::Waiting, self.waiters == Waiters::None),
            (Lack::WakeUps, self.waiters == Waiters::Poll && wakes == Wakes::Pushed),
            (Lack::Expiry, self.crash == Crash::EndOfConnection),
            (Lack::ConfirmedRelease, self.release != Release::Confirmed),
        ];
        lacks.into_iter().filter_map(|(lack, is_lacking)| is_lacking.then_some(lack)).collect()
    }
}

impl Token {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Token::None => "none",
            Token::Revision => "revision",
            Token::Fencing => "fencing",
        }
    }
}

impl Loss {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Loss::Never => "never",
            Loss::OfSession => "of the session",
            Loss::OnFailedRenewal => "on a failed renewal",
        }
    }
}

impl Renewal {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Renewal::ByCaller => "by the caller",
            Renewal::Automatic => "automatic",
        }
    }
}

impl Waiters {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Waiters::None => "none",
            Waiters::Poll => "poll",
            Waiters::Woken => "woken",
            Waiters::WokenInOrder => "woken in order",
        }
    }
}

impl Crash {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Crash::Expiry => "expiry",
            Crash::EndOfConnection => "end of the connection",
        }
    }
}

impl Release {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Release::Confirmed => "confirmed",
            Release::Unchecked => "unchecked",
            Release::Background => "in the background",
        }
    }
}

impl Lack {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Lack::Token => "token",
            Lack::Loss => "loss signal by the deadline",
            Lack::Renewal => "automatic renewal",
            Lack::Waiting => "waiting",
            Lack::WakeUps => "wake-ups by push",
            Lack::Expiry => "expiry",
            Lack::ConfirmedRelease => "confirmed release",
        }
    }

    /// Returns what the promise costs the library.
    pub(crate) fn costs(self) -> &'static str {
        match self {
            Lack::Token => "a counter that the server raises at each grant and keeps after the release",
            Lack::Loss => "a timer for each held lock",
            Lack::Renewal => "a task for each held lock or session",
            Lack::Waiting => "nothing where no client waits",
            Lack::WakeUps => {
                "the server looks at each release whether a client waits, and sends a message if one does"
            }
            Lack::Expiry => "a deadline that the server writes at each grant, and renewals",
            Lack::ConfirmedRelease => {
                "the server checks who holds the lock, and the release waits for its answer"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Promises = Promises {
        token: Token::Fencing,
        loss: Loss::OnFailedRenewal,
        renewal: Renewal::Automatic,
        waiters: Waiters::WokenInOrder,
        crash: Crash::Expiry,
        release: Release::Confirmed,
    };

    #[test]
    fn what_is_weaker_than_the_library_is_a_lack() {
        assert_eq!(ALL.lacks(Wakes::Pushed), [Lack::Loss]);
        let none = Promises {
            token: Token::None,
            loss: Loss::Never,
            renewal: Renewal::ByCaller,
            waiters: Waiters::None,
            crash: Crash::EndOfConnection,
            release: Release::Background,
        };
        let every =
            [Lack::Token, Lack::Loss, Lack::Renewal, Lack::Waiting, Lack::Expiry, Lack::ConfirmedRelease];
        assert_eq!(none.lacks(Wakes::Pushed), every);
    }

    #[test]
    fn a_waiter_that_polls_lacks_nothing_where_the_librarys_polls() {
        let polls = Promises { waiters: Waiters::Poll, ..ALL };
        assert_eq!(polls.lacks(Wakes::Polled), [Lack::Loss]);
        assert_eq!(polls.lacks(Wakes::Pushed), [Lack::Loss, Lack::WakeUps]);
    }

    #[test]
    fn a_revision_serves_as_a_token() {
        assert_eq!(Promises { token: Token::Revision, ..ALL }.lacks(Wakes::Pushed), [Lack::Loss]);
    }
}
