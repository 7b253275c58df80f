//! Until when a session is certain: until then, the server can't have ended it. Only its heartbeats prove that.
//!
//! The leader ends a session one timeout, rounded up, after it has last heard of the session. If the session is
//! connected to another server, the leader does not hear of it by its requests, but by that server's answers to the
//! leader's pings, every half tick. So an answered heartbeat proves that the leader has heard of what was sent a tick
//! before: of the previous heartbeat. An answer that comes when the session may be about to end proves nothing: a
//! server that stood still may answer and end the session right after that.

use std::time::Duration;

use lock_core::Instant;

/// The deadlines of one session, by its client's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    timeout: Duration,
    tick: Duration,
    /// Until then the session is certain.
    ends: Instant,
    /// When the last heartbeat began; or connecting, if there was none yet.
    last: Instant,
    /// When the heartbeat before the last one began.
    before: Instant,
}

/// The proof by the answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proves {
    /// The session is certain for longer.
    MoreTime,
    /// The answer came too late to be a proof.
    Nothing,
}

impl Deadlines {
    /// Begins with a session that the server granted with this timeout, after a request that began at `began`.
    pub(crate) fn new(began: Instant, timeout: Duration, tick: Duration) -> Deadlines {
        Deadlines { timeout, tick, ends: began + timeout, last: began, before: began }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns until when the session is certain.
    pub(crate) fn ends(&self) -> Instant {
        self.ends
    }

    /// Returns what is left of the session at `start`, and how much of its timeout had passed by then.
    pub(crate) fn left_at(&self, start: Instant) -> (Duration, Duration) {
        let left = self.ends.since(start);
        (left, self.timeout.saturating_sub(left))
    }

    /// Returns when the next heartbeat is due: often enough that four fifths of the timeout are certain at any time,
    /// but at most once a tick.
    pub(crate) fn due(&self) -> Instant {
        self.last + (self.timeout / 10).max(self.tick)
    }

    /// Returns when the next heartbeat may begin: it proves more only after pings, which come every half tick.
    pub(crate) fn earliest(&self) -> Instant {
        self.last + self.tick
    }

    /// Records that a heartbeat begins. It is sent after this call.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.before = self.last;
        self.last = now;
    }

    /// Records that the last heartbeat was answered. The connection doesn't matter: a reconnect makes the server hear
    /// of the session even later.
    pub(crate) fn answered(&mut self, now: Instant) -> Proves {
        // By a clock of ours that runs 1 % slow, the session ends that much earlier.
        if now + self.tick + self.timeout / 100 > self.ends {
            return Proves::Nothing;
        }
        self.ends = self.ends.max(self.before + self.timeout);
        Proves::MoreTime
    }

    /// Records that the session was resumed, by a request that began at `began`, with this timeout. That proves
    /// nothing, because no quorum took part in it. But a shorter timeout counts from then on.
    pub(crate) fn resumed(&mut self, began: Instant, granted: Duration) {
        if granted < self.timeout {
            self.timeout = granted;
            self.ends = self.ends.min(began + granted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(4000);
    const TICK: Duration = Duration::from_millis(500);

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn session() -> Deadlines {
        Deadlines::new(at(0), TIMEOUT, TICK)
    }

    #[test]
    fn a_session_counts_from_before_it_was_asked_for() {
        assert_eq!(session().ends(), at(4000));
    }

    #[test]
    fn a_heartbeat_proves_what_the_one_before_it_began() {
        let mut session = session();
        session.begin(at(1000));
        assert_eq!(session.answered(at(1005)), Proves::MoreTime);
        assert_eq!(session.ends(), at(4000), "counted from connecting");
        session.begin(at(2000));
        assert_eq!(session.answered(at(2005)), Proves::MoreTime);
        assert_eq!(session.ends(), at(5000), "counted from the first heartbeat, not from this one");
    }

    /// The leader stands still right after heartbeat 1. When it goes on, it answers heartbeat 2, and ends the session a
    /// hundredth of a second later.
    #[test]
    fn an_answer_within_the_last_tick_proves_nothing() {
        let mut session = session();
        session.begin(at(1000));
        session.answered(at(1002));
        session.begin(at(2000));
        assert_eq!(session.answered(at(3501)), Proves::Nothing);
        assert_eq!(session.ends(), at(4000));
        let mut in_time = session;
        assert_eq!(in_time.answered(at(3460)), Proves::MoreTime);
        assert_eq!(in_time.ends(), at(5000));
    }

    /// The server's clock ran faster for the whole life of the session, so the tick began earlier by that clock.
    #[test]
    fn a_slow_clock_accepts_no_late_answer() {
        let mut session = Deadlines::new(at(0), TICK * 600, TICK);
        session.begin(at(30_000));
        session.answered(at(30_001));
        session.begin(at(60_000));
        assert_eq!(
            session.answered(at(297_000)),
            Proves::Nothing,
            "a hundredth of 300 s, and more than a tick"
        );
        assert_eq!(session.answered(at(296_500)), Proves::MoreTime);
    }

    #[test]
    fn the_remaining_timeout_counts_from_an_earlier_start() {
        let (start, ends) = (at(1500), session().ends());
        assert_eq!(session().left_at(start), (ends.since(start), start.since(at(0))));
        assert_eq!(session().left_at(at(5000)), (Duration::ZERO, TIMEOUT));
    }

    #[test]
    fn an_unanswered_heartbeat_still_precedes_the_next() {
        let mut session = session();
        session.begin(at(1000));
        session.begin(at(2300));
        session.answered(at(2310));
        assert_eq!(
            session.ends(),
            at(5000),
            "it was sent on the same connection, or before this one was made"
        );
    }

    #[test]
    fn four_heartbeats_a_tick_apart_fit_a_timeout() {
        let mut session = session();
        session.begin(at(1000));
        assert_eq!((session.earliest(), session.due()), (at(1500), at(1500)));
        let long = Deadlines::new(at(0), TICK * 80, TICK);
        assert_eq!((long.earliest(), long.due()), (at(500), at(4000)));
        let shortest = Deadlines::new(at(0), TICK * 4, TICK);
        assert_eq!((shortest.earliest(), shortest.due()), (at(500), at(500)));
    }

    #[test]
    fn what_is_certain_never_shrinks_but_with_the_timeout() {
        let mut session = session();
        session.begin(at(1000));
        session.begin(at(2000));
        session.answered(at(2001));
        session.resumed(at(2500), TIMEOUT);
        assert_eq!(session.ends(), at(5000), "a resumption proves nothing");
        session.resumed(at(2500), TIMEOUT / 2);
        assert_eq!(session.ends(), at(4500));
        session.begin(at(2700));
        session.answered(at(2701));
        assert_eq!((session.timeout(), session.ends()), (TIMEOUT / 2, at(4500)));
    }
}
