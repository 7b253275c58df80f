//! Until when a session is certain: what its heartbeats prove, and nothing else.
//!
//! The server that leads ends a session one timeout after it has last heard of it, rounded up. It hears of it not by the
//! requests that come through another server, but when that one answers its ping, every half tick; so a heartbeat that is
//! answered proves that it has heard of what was sent a tick before: of the heartbeat before this one. And an answer that
//! comes when the session may be about to end proves nothing: a server that stood still may give it and end the session
//! in the same breath.

use std::time::Duration;

use lock_core::Instant;

/// Of one session, on its client's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    timeout: Duration,
    tick: Duration,
    /// Until then the session is certain.
    ends: Instant,
    /// When the last heartbeat began; or connecting, if there was none yet.
    last: Instant,
    /// When the one before it did.
    before: Instant,
}

/// What the answer to a heartbeat is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// The session is certain for longer.
    Proof,
    /// It came too late to be one.
    Nothing,
}

impl Deadlines {
    /// Of a session that the server granted this timeout, to a request that was begun at `began`.
    pub(crate) fn new(began: Instant, timeout: Duration, tick: Duration) -> Deadlines {
        Deadlines { timeout, tick, ends: began + timeout, last: began, before: began }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Until when the session is certain.
    pub(crate) fn ends(&self) -> Instant {
        self.ends
    }

    /// What is left of the session at `start`, and how much of its timeout had passed by then.
    pub(crate) fn left_at(&self, start: Instant) -> (Duration, Duration) {
        let left = self.ends.since(start);
        (left, self.timeout.saturating_sub(left))
    }

    /// When the next heartbeat is due: often enough that four fifths are certain at any time, never oftener than once a
    /// tick.
    pub(crate) fn due(&self) -> Instant {
        self.last + (self.timeout / 10).max(self.tick)
    }

    /// When the next heartbeat may begin: the pings that make it worth something come once in half a tick.
    pub(crate) fn earliest(&self) -> Instant {
        self.last + self.tick
    }

    /// A heartbeat begins: it is sent after this.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.before = self.last;
        self.last = now;
    }

    /// The heartbeat that began last was answered, on whatever connection: a reconnect makes the server hear of the
    /// session even later.
    pub(crate) fn answered(&mut self, now: Instant) -> Worth {
        // By a clock of ours that runs 1 % slow, the session ends that much earlier.
        if now + self.tick + self.timeout / 100 > self.ends {
            return Worth::Nothing;
        }
        self.ends = self.ends.max(self.before + self.timeout);
        Worth::Proof
    }

    /// The session was resumed, by a request that was begun at `began`, and this timeout granted. That proves nothing, as
    /// no quorum had a part in it; but a shorter timeout counts from then on.
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
        assert_eq!(session.answered(at(1005)), Worth::Proof);
        assert_eq!(session.ends(), at(4000), "counted from connecting");
        session.begin(at(2000));
        assert_eq!(session.answered(at(2005)), Worth::Proof);
        assert_eq!(session.ends(), at(5000), "counted from the first heartbeat, not from this one");
    }

    /// The leader stood still from just after heartbeat 1 on; it answers heartbeat 2 as it wakes up, and ends the session
    /// a hundredth of a second later.
    #[test]
    fn an_answer_within_a_tick_of_the_end_proves_nothing() {
        let mut session = session();
        session.begin(at(1000));
        session.answered(at(1002));
        session.begin(at(2000));
        assert_eq!(session.answered(at(3501)), Worth::Nothing);
        assert_eq!(session.ends(), at(4000));
        let mut in_time = session;
        assert_eq!(in_time.answered(at(3460)), Worth::Proof);
        assert_eq!(in_time.ends(), at(5000));
    }

    /// By the server's clock, which ran faster for all of the session's life, the tick began earlier.
    #[test]
    fn a_slow_clock_takes_no_late_answer_for_one_in_time() {
        let mut session = Deadlines::new(at(0), TICK * 600, TICK);
        session.begin(at(30_000));
        session.answered(at(30_001));
        session.begin(at(60_000));
        assert_eq!(
            session.answered(at(297_000)),
            Worth::Nothing,
            "a hundredth of 300 s, and more than a tick"
        );
        assert_eq!(session.answered(at(296_500)), Worth::Proof);
    }

    #[test]
    fn what_is_left_is_of_a_timeout_that_began_before() {
        let (start, ends) = (at(1500), session().ends());
        assert_eq!(session().left_at(start), (ends.since(start), start.since(at(0))));
        assert_eq!(session().left_at(at(5000)), (Duration::ZERO, TIMEOUT));
    }

    #[test]
    fn a_heartbeat_that_nobody_answered_is_one_before_the_next_all_the_same() {
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
    fn heartbeats_are_a_tick_apart_and_at_least_four_in_a_timeout() {
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
