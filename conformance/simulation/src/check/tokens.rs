//! I1 and I2: tokens rise, and what they protect is written in their order.

use super::{Checker, Invariant};
use crate::ids::CallId;

impl Checker {
    pub(super) fn has_its_own_token(&mut self, call: CallId, token: u64) {
        self.could(Invariant::FencedExclusion);
        let lock = self.calls[call].lock;
        if let Some(other) = self.calls.iter().position(|other| other.lock == lock && other.token == token) {
            self.broken(Invariant::FencedExclusion, [other, call], format!("both have the token {token}"));
        }
    }

    pub(super) fn has_a_higher_token(&mut self, call: CallId, token: u64) {
        if let Some((highest, whose)) = self.calls[call].after {
            self.could(Invariant::TokenOrder);
            if highest >= token {
                self.broken(
                    Invariant::TokenOrder,
                    [whose, call],
                    format!("{token} was granted after {highest}"),
                );
            }
        }
        let highest = &mut self.locks[self.calls[call].lock].highest_token;
        *highest = (*highest).max(Some((token, call)));
    }

    pub(super) fn wrote(&mut self, call: CallId, token: u64, accepted: bool) {
        self.could(Invariant::FencedExclusion);
        if self.calls[call].token != token {
            let why = format!("a write came with the token {token}, which is not its own");
            self.broken(Invariant::FencedExclusion, [call], why);
        }
        let lock = self.calls[call].lock;
        match self.locks[lock].highest_write {
            Some((highest, whose)) if accepted && highest > token => {
                let why = format!("a write with {token} was accepted after one with {highest}");
                self.broken(Invariant::FencedExclusion, [whose, call], why);
            }
            Some((highest, whose)) if !accepted && highest <= token => {
                let why = format!("a write with {token} was refused, and none with a higher one came before");
                self.broken(Invariant::FencedExclusion, [whose, call], why);
            }
            _ => {}
        }
        if accepted {
            let highest = &mut self.locks[lock].highest_write;
            *highest = (*highest).max(Some((token, call)));
        }
    }
}
