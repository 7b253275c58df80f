//! Whether a test failed.
//!
//! A test that was late, and nothing else, is excused if the machine was seen to stand still for half of that delay. It
//! then has to pass three times with the machine to itself. A test that was void is run again until it has shown
//! something; if it is void three times, it has failed.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::failure::{Failure, TooLate};
use crate::machine::{self, Stall};
use crate::record;
use crate::turn::{self, Company};

/// Whether a test can share the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Light,
    /// It waits most of the time, for bounds that many tests at a time would strain: only a few run side by side.
    Medium,
    /// It measures, or keeps the machine busy, so it runs alone.
    Heavy,
}

/// Decides which tests share the machine: all but heavy ones share it, and a test that is run again has it alone.
#[derive(Debug, Default)]
pub(crate) struct Judge(RwLock<()>);

/// How often a test that was late has to pass alone. A bug that shows one time in three passes that often 8 times of
/// 27.
const CLEAN: u32 = 3;
/// A test that is void so often has failed.
const VOID: u32 = 3;

/// Why a test is run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It was late, and the machine had stood still. The text gives both durations.
    Excused(String),
    Void(String),
}

impl Again {
    /// Prints the reason for the test `what`, and notes it for the summary of `cargo xtask test`.
    pub(crate) fn note(&self, what: &str) {
        let (Again::Excused(why) | Again::Void(why)) = self;
        println!("asked again: {what}: {why}");
        match self {
            Again::Excused(why) => record::excused(what, why),
            Again::Void(why) => record::void(what, why),
        }
    }
}

impl Judge {
    pub(crate) const fn new() -> Judge {
        Judge(RwLock::new(()))
    }

    /// Returns what a test answers in the end; `Err` says why it failed. If it passes after all, calls `again` with each
    /// reason for which it was run again. A test that fails has no excuse: some are of drivers with known flaws, and are
    /// meant to fail.
    pub(crate) fn judge<T>(
        &self,
        load: Load,
        test: impl Fn() -> Result<T, Failure>,
        again: impl Fn(&Again),
    ) -> Result<T, String> {
        self.judge_by(load, test, again, machine::stalled)
    }

    fn judge_by<T>(
        &self,
        load: Load,
        test: impl Fn() -> Result<T, Failure>,
        again: impl Fn(&Again),
        stalled: impl Fn(Instant, Duration) -> Stall,
    ) -> Result<T, String> {
        machine::watch();
        let began = Instant::now();
        let (mut clean, mut void, first) = match self.first(load, &test) {
            Ok(passed) => return Ok(passed),
            Err(Failure::Wrong(why)) => return Err(why),
            Err(Failure::Late(late)) => {
                (CLEAN, VOID, Again::Excused(excuse(&late, stalled(began, late.during))?))
            }
            Err(Failure::Void(why)) => (1, VOID - 1, Again::Void(why)),
        };
        let mut reasons = vec![first];
        let _alone = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let _turn = turn::take(Company::None);
        loop {
            match test() {
                Ok(passed) if clean == 1 => {
                    reasons.iter().for_each(again);
                    return Ok(passed);
                }
                Ok(_) => clean -= 1,
                // A test that is void each time cannot show what it is meant to show. That is a failure.
                Err(Failure::Void(why)) if void > 1 => {
                    reasons.push(Again::Void(why));
                    void -= 1;
                }
                Err(failure) => return Err(format!("{failure}; it had the machine to itself")),
            }
        }
    }

    /// Runs a test for the first time: beside others, if it can be.
    fn first<T>(&self, load: Load, test: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        let _heavy = (load == Load::Heavy).then(|| self.0.write().unwrap_or_else(PoisonError::into_inner));
        let _light = (load != Load::Heavy).then(|| self.0.read().unwrap_or_else(PoisonError::into_inner));
        // A heavy test is alone in this program. Other programs have their own servers, and waiting for them each time
        // would take longer than all the rest.
        let _turn = turn::take(Company::Others);
        test()
    }
}

/// Returns what excuses this delay, or the reason why nothing does.
fn excuse(late: &TooLate, stall: Stall) -> Result<String, String> {
    let said = Failure::Late(late.clone());
    if stall.time * 2 >= late.by {
        Ok(format!("{said}; meanwhile {stall}"))
    } else {
        Err(format!("{said}; the machine does not excuse that: {stall} at most"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const LATE: fn() -> Result<(), Failure> = || {
        let (by, during) = (Duration::from_secs(2), Duration::from_secs(3));
        Err(Failure::Late(TooLate { by, during, what: "after 3 s".into() }))
    };
    const VOID: fn() -> Result<(), Failure> = || Err(Failure::Void("nothing was refused".into()));
    const WRONG: fn() -> Result<(), Failure> = || Err(Failure::wrong("two at a time"));
    const WELL: fn() -> Result<(), Failure> = || Ok(());

    /// Runs a test that gives these answers one after the other, on a machine that stood still for `stood_still`.
    /// Returns the outcome, how often it ran, and how often it was excused and void.
    fn asked(
        load: Load,
        stood_still: Duration,
        answers: &[fn() -> Result<(), Failure>],
    ) -> (Result<(), String>, usize, [usize; 2]) {
        let (turn, said) = (Cell::new(0), RefCell::new(Vec::new()));
        let test = || {
            turn.set(turn.get() + 1);
            answers[turn.get() - 1]()
        };
        let again = |why: &Again| said.borrow_mut().push(why.clone());
        let stalled = |_, during| {
            assert_eq!(during, Duration::from_secs(3));
            Stall::of(stood_still)
        };
        let outcome = Judge::new().judge_by(load, test, again, stalled);
        let said = said.into_inner();
        let excused = said.iter().filter(|why| matches!(why, Again::Excused(_))).count();
        (outcome, turn.get(), [excused, said.len() - excused])
    }

    const STILL: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_late_without_a_reason_has_failed() {
        for load in [Load::Light, Load::Heavy] {
            assert_eq!(asked(load, STILL, &[WELL]), (Ok(()), 1, [0, 0]));
            let (outcome, times, noted) =
                asked(load, STILL - Duration::from_millis(1), &[LATE, WELL, WELL, WELL]);
            assert_eq!((outcome.is_err(), times, noted), (true, 1, [0, 0]), "{outcome:?}");
        }
    }

    #[test]
    fn what_is_late_on_a_machine_that_stood_still_passes_three_times_by_itself() {
        assert_eq!(asked(Load::Light, STILL, &[LATE, WELL, WELL, WELL]), (Ok(()), 4, [1, 0]));
        for n in 1..=3 {
            let mut answers = [LATE, WELL, WELL, WELL];
            answers[n] = LATE;
            let (outcome, times, noted) = asked(Load::Medium, STILL, &answers);
            assert_eq!((outcome.is_err(), times, noted), (true, n + 1, [0, 0]), "{outcome:?}");
        }
        // A void run is none of the three.
        assert_eq!(asked(Load::Light, STILL, &[LATE, WELL, VOID, WELL, WELL]), (Ok(()), 5, [1, 1]));
    }

    #[test]
    fn what_is_wrong_is_wrong_the_first_time_and_the_second() {
        let hour = Duration::from_secs(3600);
        assert_eq!(asked(Load::Light, hour, &[WRONG, WELL]).1, 1);
        let (outcome, times, _) = asked(Load::Light, hour, &[LATE, WRONG, WELL]);
        assert_eq!(times, 2);
        assert!(outcome.is_err_and(|why| why.starts_with("two at a time")));
    }

    #[test]
    fn what_was_void_is_asked_again_whatever_the_machine_did() {
        assert_eq!(asked(Load::Light, Duration::ZERO, &[VOID, VOID, WELL]), (Ok(()), 3, [0, 2]));
        assert_eq!(asked(Load::Light, Duration::ZERO, &[VOID, WRONG, WELL]).1, 2);
        // Not without end, and a void test has not passed.
        let (outcome, times, _) = asked(Load::Light, Duration::ZERO, &[VOID, VOID, VOID, WELL]);
        assert_eq!((outcome.is_err(), times), (true, 3));
    }
}
