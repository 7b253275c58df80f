//! Whether a test failed: one that was too late beside others, or on a machine that stood still, is asked again, and so is
//! one that was void.

use std::any::Any;
use std::sync::{PoisonError, RwLock};

use crate::machine::Watch;
use crate::timing::{is_about_time, is_void};
use crate::turn::{self, Company};

/// Whether a test can share the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Light,
    /// It waits most of the time, for bounds that many neighbours would strain: a few run side by side.
    Medium,
    /// It measures, or keeps the machine busy: it runs alone.
    Heavy,
}

/// Who has the machine: all but heavy ones share it, who is asked again has it alone.
#[derive(Debug, Default)]
pub(crate) struct Judge(RwLock<()>);

/// How often one that is alone is asked, if it is void or the machine stands still each time.
const TIMES: u32 = 3;

impl Judge {
    pub(crate) const fn new() -> Judge {
        Judge(RwLock::new(()))
    }

    /// What a test answers in the end; `Err` says why it failed. `again` hears why it is asked again.
    pub(crate) fn judge<T>(
        &self,
        load: Load,
        test: impl Fn() -> Result<T, String>,
        again: impl Fn(&str),
    ) -> Result<T, String> {
        if let Some(outcome) = self.beside_others(load, &test) {
            match outcome {
                Err(why) if is_about_time(&why) || is_void(&why) => {
                    again(&format!("{why}; others ran meanwhile"));
                }
                outcome => return outcome,
            }
        }
        let _alone = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let _turn = turn::take(Company::None);
        judge_alone(test, again, Watch::start)
    }

    /// None for one that is to be alone, where it can be.
    fn beside_others<T>(
        &self,
        load: Load,
        test: impl Fn() -> Result<T, String>,
    ) -> Option<Result<T, String>> {
        if load == Load::Heavy {
            // Alone in this program; other programs have servers of their own. To wait for them each time would take
            // longer than all the rest.
            let _alone_here = self.0.write().unwrap_or_else(PoisonError::into_inner);
            return turn::is_shared().then(|| in_turn(test));
        }
        let _beside = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(in_turn(test))
    }
}

fn in_turn<T>(test: impl FnOnce() -> T) -> T {
    let _turn = turn::take(Company::Others);
    test()
}

/// What was seen of the machine while a test ran.
trait Witness {
    fn stood_still(&self) -> Option<String>;
}

impl Witness for Watch {
    fn stood_still(&self) -> Option<String> {
        Watch::stood_still(self)
    }
}

fn judge_alone<T, W: Witness>(
    test: impl Fn() -> Result<T, String>,
    again: impl Fn(&str),
    witness: impl Fn() -> W,
) -> Result<T, String> {
    for _ in 1..TIMES {
        let witness = witness();
        let why = match test() {
            Err(why) => why,
            passed => return passed,
        };
        match witness.stood_still() {
            _ if is_void(&why) => again(&why),
            Some(meanwhile) if is_about_time(&why) => again(&format!("{why}; meanwhile {meanwhile}")),
            _ => return Err(why),
        }
    }
    // One that is void each time can't show what it is there to show: that is a failure.
    test()
}

/// What a test says of its failure.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    struct Machine(Option<&'static str>);

    impl Witness for Machine {
        fn stood_still(&self) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    /// Answers in turn; says how often it was asked, and what was said of it.
    fn asked(
        answers: &[Result<(), &str>],
        judge: impl FnOnce(&dyn Fn() -> Result<(), String>, &dyn Fn(&str)) -> Result<(), String>,
    ) -> (Result<(), String>, usize, Vec<String>) {
        let (turn, said) = (RefCell::new(0), RefCell::new(Vec::new()));
        let test = || {
            *turn.borrow_mut() += 1;
            answers[*turn.borrow() - 1].map_err(str::to_owned)
        };
        let outcome = judge(&test, &|why| said.borrow_mut().push(why.to_owned()));
        (outcome, turn.into_inner(), said.into_inner())
    }

    const LATE: Result<(), &str> = Err("too late: after 3 s");
    const VOID: Result<(), &str> = Err("void: no connection was refused");
    const WRONG: Result<(), &str> = Err("two at a time");

    #[test]
    fn who_was_too_late_beside_others_is_asked_again_once() {
        let light = |answers| asked(answers, |test, again| Judge::new().judge(Load::Light, test, again));
        assert_eq!(light(&[Ok(())]), (Ok(()), 1, vec![]));
        let (outcome, times, said) = light(&[LATE, Ok(())]);
        assert_eq!((outcome, times), (Ok(()), 2));
        assert_eq!(said, ["too late: after 3 s; others ran meanwhile"]);
        // What is wrong is wrong, the first time and the second.
        assert_eq!(light(&[WRONG, Ok(())]).1, 1);
        assert_eq!(light(&[LATE, WRONG, Ok(())]), (Err("two at a time".into()), 2, said));
    }

    #[test]
    fn who_is_alone_is_asked_again_only_if_the_machine_stood_still() {
        let alone = |answers, machine: Option<&'static str>| {
            asked(answers, |test, again| judge_alone(test, again, || Machine(machine)))
        };
        let (outcome, times, said) = alone(&[LATE, Ok(())], None);
        assert_eq!((outcome, times, said), (LATE.map_err(str::to_owned), 1, vec![]));
        let slow = Some("a timer was 40ms late");
        assert_eq!(alone(&[WRONG, Ok(())], slow).1, 1);
        let (outcome, times, said) = alone(&[LATE, LATE, Ok(())], slow);
        assert_eq!((outcome, times), (Ok(()), 3));
        assert_eq!(said, ["too late: after 3 s; meanwhile a timer was 40ms late"; 2]);
        // Not for ever.
        assert_eq!(alone(&[LATE, LATE, LATE, Ok(())], slow).1, 3);
    }

    #[test]
    fn who_was_void_is_asked_again_whatever_the_machine_did() {
        let light = |answers| asked(answers, |test, again| Judge::new().judge(Load::Light, test, again));
        assert_eq!(light(&[VOID, VOID, Ok(())]).1, 3);
        let alone = |answers| asked(answers, |test, again| judge_alone(test, again, || Machine(None)));
        let (outcome, times, said) = alone(&[VOID, VOID, Ok(())]);
        assert_eq!((outcome, times), (Ok(()), 3));
        assert_eq!(said, ["void: no connection was refused"; 2]);
        assert_eq!(alone(&[VOID, WRONG, Ok(())]).0, Err("two at a time".into()));
        // Not for ever, and it has not passed.
        let (outcome, times, _) = alone(&[VOID, VOID, VOID, Ok(())]);
        assert_eq!((outcome, times), (VOID.map_err(str::to_owned), 3));
    }
}
