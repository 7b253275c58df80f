//! The checker: reads a history and says which promises it broke, and how often it could have.

use std::fmt;

use super::log::{CallId, Entry, What, Why};

/// How much later than its own deadline a holder may be told: what clocks are rounded to.
const TOLD_LATE: u64 = 10;

/// What the library promises, by its number in the documentation of the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// I1. The resource takes writes in the order of their tokens, never refuses the holder's, and no two acquisitions
    /// have one token.
    FencedExclusion,
    /// I2. Who was granted the lock before another one asked for it has the lower token.
    TokenOrder,
    /// I3. No two guards believe at the same time that they are held.
    Exclusion,
    /// I4. A loss is told at the guard's own deadline at the latest, and before another one is granted the lock.
    LossInTime,
    /// I7. "Busy" and "timeout" are said only if another one held the lock, or may have, during the call.
    TruthfulRefusal,
    /// I10. A release ends its own hold or nothing, and "released" is said only if it ended one.
    HonestRelease,
    /// Every call ends, and nothing is left of a client that is shut down.
    Ends,
}

impl Invariant {
    /// All of them, in the order of reports.
    pub const ALL: [Invariant; 7] = [
        Invariant::FencedExclusion,
        Invariant::TokenOrder,
        Invariant::Exclusion,
        Invariant::LossInTime,
        Invariant::TruthfulRefusal,
        Invariant::HonestRelease,
        Invariant::Ends,
    ];
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Invariant::FencedExclusion => "I1  fenced exclusion",
            Invariant::TokenOrder => "I2  token order",
            Invariant::Exclusion => "I3  exclusion in time",
            Invariant::LossInTime => "I4  loss told in time",
            Invariant::TruthfulRefusal => "I7  truthful refusals",
            Invariant::HonestRelease => "I10 honest releases",
            Invariant::Ends => "    everything ends",
        })
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// The calls that it is about.
    pub calls: Vec<CallId>,
    /// How it shows.
    pub message: String,
    /// At which entry of the log.
    pub index: usize,
}

/// What a history shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How often each invariant could have been broken, in the order of [`Invariant::ALL`].
    pub opportunities: [u64; 7],
    /// How often one was.
    pub violations: Vec<Violation>,
    /// Calls that were granted the lock.
    pub grants: u64,
    /// How often two guards were held at once because somebody had set the server's clock.
    pub excused: u64,
}

/// Checks a history from its beginning to its end.
pub fn check(log: &[Entry]) -> Verdict {
    let ends_early = |entry: &Entry| matches!(entry.what, What::Begins(fault) if fault.ends_leases_early());
    let mut checker = Checker { leases_hold: !log.iter().any(ends_early), ..Checker::default() };
    for (index, entry) in log.iter().enumerate() {
        checker.index = index;
        checker.at = entry.at;
        checker.see(&entry.what);
    }
    checker.verdict
}

#[derive(Default)]
struct Checker {
    calls: Vec<Call>,
    /// Granted, and neither told nor let go.
    open: Vec<CallId>,
    /// Asked, and not answered.
    asking: Vec<CallId>,
    holder: Option<CallId>,
    /// How many claims each client has, as far as it knows.
    claims: Vec<usize>,
    /// The highest one that was granted, and to whom.
    highest_token: Option<(u64, CallId)>,
    highest_write: Option<(u64, CallId)>,
    last_grant: Option<CallId>,
    /// Until when each client stands still.
    stopped: Vec<(usize, u64)>,
    /// Whether nobody ends leases before their time.
    leases_hold: bool,
    index: usize,
    at: u64,
    verdict: Verdict,
}

#[derive(Clone, Debug, Default)]
struct Call {
    client: usize,
    token: u64,
    /// The highest token that had been granted when this call began.
    after: Option<(u64, CallId)>,
    /// Granted to another one meanwhile.
    succeeded_by: Option<CallId>,
    /// Somebody else held the lock, or may have, at some time since it asked.
    saw_another: bool,
    released: bool,
}

impl Checker {
    fn see(&mut self, what: &What) {
        match *what {
            What::Asked { call, client } => self.asked(call, client),
            What::Granted { call, token } => self.granted(call, token),
            What::NotGranted { call, why } => self.not_granted(call, why),
            What::Held { call } => self.held(call),
            What::Told { call, late, .. } => self.told(call, late),
            What::LetGo { call } => self.open.retain(|open| *open != call),
            What::Ended { call, ending } => self.ended(call, ending),
            What::Wrote { call, token, accepted } => self.wrote(call, token, accepted),
            What::ClaimBegins { client } => self.claim_begins(client),
            What::ClaimEnds { client } => self.claims(client).into_iter().for_each(|claims| *claims -= 1),
            What::Holder { call } => self.holder_is(call),
            What::ReleaseArrived { of, before, after } => self.release_arrived(of, before, after),
            What::Begins(fault) => {
                if let super::faults::Kind::Pause(client) = fault.kind {
                    self.stopped.push((client, fault.ends));
                }
            }
            What::Over(_) => {}
            What::ShutDown { client, left } => {
                self.could(Invariant::Ends);
                if left > 0 {
                    let why = format!("client {client} has {left} claims left after its shutdown");
                    self.broken(Invariant::Ends, Vec::new(), why);
                }
            }
        }
    }

    fn asked(&mut self, call: CallId, client: usize) {
        if self.calls.len() <= call {
            self.calls.resize(call + 1, Call::default());
        }
        let another_here = self.claims(client).is_some_and(|claims| *claims > 0);
        let saw_another = another_here || self.holder.is_some_and(|holder| holder != call);
        self.calls[call] = Call { client, after: self.highest_token, saw_another, ..Call::default() };
        self.asking.push(call);
    }

    fn granted(&mut self, call: CallId, token: u64) {
        self.verdict.grants += 1;
        self.asking.retain(|asking| *asking != call);
        if self.last_grant.is_some() {
            self.could(Invariant::Exclusion);
        }
        self.has_its_own_token(call, token);
        if let Some((highest, whose)) = self.calls[call].after {
            self.could(Invariant::TokenOrder);
            if highest >= token {
                let why = format!("{token} was granted after {highest}");
                self.broken(Invariant::TokenOrder, vec![whose, call], why);
            }
        }
        for open in self.open.clone() {
            self.calls[open].succeeded_by.get_or_insert(call);
            self.is_granted_before_told(open, call);
        }
        self.calls[call].token = token;
        self.highest_token = self.highest_token.max(Some((token, call)));
        self.last_grant = Some(call);
        self.open.push(call);
    }

    fn has_its_own_token(&mut self, call: CallId, token: u64) {
        self.could(Invariant::FencedExclusion);
        if let Some(other) = self.calls.iter().position(|other| other.token == token) {
            self.broken(
                Invariant::FencedExclusion,
                vec![other, call],
                format!("both have the token {token}"),
            );
        }
    }

    /// The one who stands still can't be told: its guard says so as soon as it looks, which is checked there.
    fn is_granted_before_told(&mut self, untold: CallId, call: CallId) {
        let client = self.calls[untold].client;
        let stands = self.stopped.iter().any(|(stopped, until)| *stopped == client && self.at <= *until);
        if !stands {
            let why = format!("call {untold} was not told before call {call} was granted the lock");
            self.broken_in_time(Invariant::LossInTime, vec![untold, call], why);
        }
    }

    fn not_granted(&mut self, call: CallId, why: Why) {
        self.asking.retain(|asking| *asking != call);
        match why {
            Why::Busy | Why::Timeout => {
                self.could(Invariant::TruthfulRefusal);
                if !self.calls[call].saw_another {
                    let why = format!("{why:?}, and nobody else held the lock since it asked");
                    self.broken(Invariant::TruthfulRefusal, vec![call], why);
                }
            }
            Why::Unexpected => {
                self.broken(Invariant::TruthfulRefusal, vec![call], "an error without a reason".to_owned());
            }
            Why::Unavailable | Why::Lost | Why::Cancelled => {}
        }
    }

    fn held(&mut self, call: CallId) {
        let Some(successor) = self.calls[call].succeeded_by else { return };
        let why = format!("call {call} believes that it holds after call {successor} was granted the lock");
        self.broken_in_time(Invariant::Exclusion, vec![call, successor], why);
    }

    fn told(&mut self, call: CallId, late: u64) {
        self.open.retain(|open| *open != call);
        self.could(Invariant::LossInTime);
        if late > TOLD_LATE {
            let why = format!("told {late} us after its deadline");
            self.broken(Invariant::LossInTime, vec![call], why);
        }
    }

    fn ended(&mut self, call: CallId, ending: lock_core::Ending) {
        if ending != lock_core::Ending::Released {
            return;
        }
        self.could(Invariant::HonestRelease);
        if !self.calls[call].released {
            let why = "said to be released, and the server did not have it any more".to_owned();
            self.broken(Invariant::HonestRelease, vec![call], why);
        }
    }

    fn wrote(&mut self, call: CallId, token: u64, accepted: bool) {
        self.could(Invariant::FencedExclusion);
        if self.calls[call].token != token {
            let why = format!("a write came with the token {token}, which is not its own");
            self.broken(Invariant::FencedExclusion, vec![call], why);
        }
        match self.highest_write {
            Some((highest, whose)) if accepted && highest > token => {
                let why = format!("a write with {token} was accepted after one with {highest}");
                self.broken(Invariant::FencedExclusion, vec![whose, call], why);
            }
            Some((highest, whose)) if !accepted && highest <= token => {
                let why = format!("a write with {token} was refused, and none with a higher one came before");
                self.broken(Invariant::FencedExclusion, vec![whose, call], why);
            }
            _ => {}
        }
        if accepted {
            self.highest_write = self.highest_write.max(Some((token, call)));
        }
    }

    fn holder_is(&mut self, holder: Option<CallId>) {
        self.holder = holder;
        let Some(holder) = holder else { return };
        for asking in &self.asking {
            self.calls[*asking].saw_another |= *asking != holder;
        }
    }

    /// Whose release is not answered may hold the lock, for all that its process knows: those who wait behind it in the
    /// same process are told so.
    fn claim_begins(&mut self, client: usize) {
        if self.claims.len() <= client {
            self.claims.resize(client + 1, 0);
        }
        self.claims[client] += 1;
        for asking in &self.asking {
            let call = &mut self.calls[*asking];
            call.saw_another |= call.client == client;
        }
    }

    fn claims(&mut self, client: usize) -> Option<&mut usize> {
        self.claims.get_mut(client)
    }

    fn release_arrived(&mut self, of: Option<CallId>, before: Option<CallId>, after: Option<CallId>) {
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
            self.broken(
                Invariant::HonestRelease,
                calls,
                format!("a release ended the hold of call {before}"),
            );
        }
    }

    fn could(&mut self, invariant: Invariant) {
        self.verdict.opportunities[invariant as usize] += 1;
    }

    /// Broken, unless somebody has ended a lease before its time.
    fn broken_in_time(&mut self, invariant: Invariant, calls: Vec<CallId>, message: String) {
        match self.leases_hold {
            true => self.broken(invariant, calls, message),
            false => self.verdict.excused += 1,
        }
    }

    fn broken(&mut self, invariant: Invariant, calls: Vec<CallId>, message: String) {
        self.verdict.violations.push(Violation { invariant, calls, message, index: self.index });
    }
}

impl Violation {
    /// The entries of the log that it takes to understand it.
    pub fn slice<'a>(&self, log: &'a [Entry]) -> Vec<&'a Entry> {
        let concerns = |entry: &&Entry| self.calls.iter().any(|call| entry.what.concerns(*call));
        let upto = &log[..log.len().min(self.index + 1)];
        let asked =
            |entry: &Entry| matches!(entry.what, What::Asked { call, .. } if self.calls.contains(&call));
        let first = upto.iter().position(asked).unwrap_or(upto.len().saturating_sub(40));
        let faults =
            upto[..first].iter().filter(|entry| matches!(entry.what, What::Begins(_) | What::Over(_)));
        let all = self.calls.is_empty();
        faults.chain(upto[first..].iter().filter(|entry| all || concerns(entry))).collect()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.to_string().trim_start(), self.message)
    }
}
