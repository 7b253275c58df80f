//! I10: a release ends its own hold or nothing, and says so.

use lock_core::Ending;

use super::{Checker, Invariant};
use crate::sim::log::CallId;

impl Checker {
    pub(super) fn ended(&mut self, call: CallId, ending: Ending) {
        if ending != Ending::Released {
            return;
        }
        self.could(Invariant::HonestRelease);
        if !self.calls[call].released {
            let why = "said to be released, and the server did not have it any more".to_owned();
            self.broken(Invariant::HonestRelease, vec![call], why);
        }
    }

    pub(super) fn release_arrived(
        &mut self,
        of: Option<CallId>,
        before: Option<CallId>,
        after: Option<CallId>,
    ) {
        if of == before && before != after {
            of.into_iter().for_each(|call| self.calls[call].released = true);
            return;
        }
        self.could(Invariant::HonestRelease);
        if let Some(before) = before
            && Some(before) != after
            && of != Some(before)
        {
            let calls = of.into_iter().chain([before]).collect();
            let why = format!("a release ended the hold of call {before}");
            self.broken(Invariant::HonestRelease, calls, why);
        }
    }
}
