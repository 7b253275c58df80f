//! The life of a claim, from top to bottom: enter, hold, leave. One task owns the claim throughout, so that a caller
//! who goes away, at any moment, leaves nothing behind on the server.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::backoff;
use crate::client::Shared;
use crate::clock::Instant;
use crate::driver::{Attempt, Busy, Cause, Claim, Lease, Release, Renewal, Request, Waits, Wakes};
use crate::error::{Done, Error, ErrorKind, Result};
use crate::events::{Event, Refusal};
use crate::gate::{STAND_BACK, Turn};
use crate::guard::{Command, Ending, State};
use crate::lock::Terms;
use crate::owner::Owner;
use crate::token::FencingToken;

/// What a caller is answered: the makings of its guard, or that somebody else holds the lock.
pub(crate) type Answer = Result<Option<Granted>>;

/// The makings of a guard.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) state: watch::Receiver<State>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
}

/// One claim and all that is known of it.
pub(crate) struct Life {
    shared: Arc<Shared>,
    terms: Terms,
    owner: Owner,
    patience: Duration,
    waits: Waits,
    /// When a caller's wait is over.
    wait_ends: Option<Instant>,
    claim: Box<dyn Claim>,
    began: Instant,
    listening: Listening,
    residue: Residue,
}

/// Whether `changed` can be waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listening {
    NotYet,
    Yes,
    /// The server can't push to this client.
    Never,
}

/// What may be left of this owner on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Residue {
    Nothing,
    Something,
    /// Or may yet come to be, up to this moment: an attempt of unknown outcome is on its way.
    UntilThen(Instant),
}

/// A granted lock.
struct Held {
    token: FencingToken,
    since: Instant,
    /// Until when the lock is certain.
    until: Instant,
    renew_at: Option<Instant>,
    /// When `max_hold` ends it.
    end: Option<Instant>,
    failures: u32,
    state: watch::Sender<State>,
}

impl Held {
    /// There is proof of the lock up to `until`. An older one may reach further: the server never shortens.
    fn reaches(&mut self, until: Instant) {
        let state = Held::state(until.max(self.until), self.end);
        self.until = state.until;
        // What is lost stays lost.
        self.state.send_modify(|old| *old = State { lost: old.lost, ..state });
    }

    fn state(until: Instant, end: Option<Instant>) -> State {
        match end {
            Some(end) if until >= end => State { until: end, at_end: Cause::MaxHold, lost: None },
            _ => State { until, at_end: Cause::Expired, lost: None },
        }
    }

    /// What it means if `until` comes.
    fn at_end(&self) -> Cause {
        self.state.borrow().at_end
    }
}

/// Why holding came to its end.
enum Kept<T> {
    Stopped(T),
    Lost(Cause),
}

impl Life {
    pub(crate) fn new(shared: Arc<Shared>, terms: Terms, waits: Waits, wait_ends: Option<Instant>) -> Life {
        let owner = Owner::mint(&shared.random);
        let patience = shared.patience_for(terms.ttl);
        let claim = shared.driver.claim(Request {
            name: terms.name.clone(),
            owner,
            mode: terms.mode,
            ttl: terms.ttl,
            patience,
            waits,
            label: terms.label.clone(),
            clock: shared.clock.clone(),
        });
        let began = shared.clock.now();
        let (listening, residue) = (Listening::NotYet, Residue::Nothing);
        Life { shared, terms, owner, patience, waits, wait_ends, claim, began, listening, residue }
    }

    /// Enters, holds, leaves.
    pub(crate) async fn live(mut self, mut caller: oneshot::Sender<Answer>) {
        self.tell(&Event::Asked { name: &self.terms.name });
        let turn = match self.take_turn(&mut caller).await {
            Ok(turn) => turn,
            Err(e) => return self.answer_no(caller, Err(e)),
        };
        match self.enter(&mut caller, turn.as_ref()).await {
            Ok(Some(held)) => self.hold(held, caller, turn).await,
            other => {
                self.answer_no(caller, other.map(|_| None));
                drop(turn);
                self.withdraw().await;
            }
        }
    }

    // ---- enter ------------------------------------------------------------------------------------------------------

    /// Waiters queue in front of the server; one who only looks asks it at once, because only the server knows.
    async fn take_turn(&mut self, caller: &mut oneshot::Sender<Answer>) -> Result<Option<Turn>> {
        if self.waits == Waits::No {
            return Ok(None);
        }
        tokio::select! {
            biased;
            turn = self.shared.gates.enter(&self.terms.name) => Ok(Some(turn)),
            () = caller.closed() => Err(gone()),
            () = self.shared.closing() => Err(shutting_down()),
        }
    }

    /// Attempts until granted, refused, out of time, or nobody waits for the answer.
    async fn enter(
        &mut self,
        caller: &mut oneshot::Sender<Answer>,
        turn: Option<&Turn>,
    ) -> Result<Option<Held>> {
        if turn.is_some_and(Turn::must_stand_back) {
            self.stand_back().await;
        }
        let mut failures = 0;
        loop {
            let asked = self.now();
            let pause = match self.attempt().await {
                Ok(Attempt::Granted(grant)) => {
                    let until = asked + certain(grant.valid_for);
                    if until > self.now() {
                        turn.inspect(|turn| turn.granted());
                        return Ok(Some(self.held(grant.token, asked, until, grant.valid_for)));
                    }
                    // Not a lock to build on; but ours, so that the next attempt prolongs it, and leaving releases it.
                    // A release in between could arrive late, and free what the next attempt was granted.
                    self.listening = Listening::NotYet;
                    let e = self.at("acquire", too_slow());
                    if self.waits == Waits::No {
                        return Err(e);
                    }
                    self.troubled(&e, turn);
                    failures += 1;
                    backoff::after_error(failures, &self.shared.random)
                }
                Ok(Attempt::Busy(busy)) => {
                    turn.inspect(|turn| turn.busy());
                    failures = 0;
                    if self.waits == Waits::No || self.wait_ends.is_some_and(|at| at <= self.now()) {
                        return Ok(None);
                    }
                    if self.listen().await {
                        continue; // look, listen, look again: a release in between would go unnoticed
                    }
                    self.pause(busy)
                }
                Err(e) if e.is_transient() && self.waits == Waits::Queued => {
                    self.troubled(&e, turn);
                    failures += 1;
                    e.retry_in().unwrap_or_else(|| backoff::after_error(failures, &self.shared.random))
                }
                Err(e) => return Err(e),
            };
            self.wait(pause, caller).await?;
        }
    }

    fn troubled(&self, error: &Error, turn: Option<&Turn>) {
        self.trouble("attempt", error);
        turn.inspect(|turn| turn.trouble(error.to_string()));
    }

    async fn attempt(&mut self) -> Result<Attempt> {
        let asked = self.now();
        let outcome = self.claim.attempt().await;
        match &outcome {
            Ok(Attempt::Granted(_) | Attempt::Busy(Busy { queued: true, .. })) => {
                self.leaves(Residue::Something);
            }
            Ok(Attempt::Busy(_)) => {}
            Err(e) if e.may_have_been_done() => self.leaves(Residue::UntilThen(asked + self.patience)),
            // A server may refuse the second half of what it has begun.
            Err(e) if e.kind() == ErrorKind::Rejected => self.leaves(Residue::Something),
            Err(_) => {}
        }
        outcome.map_err(|e| self.at("acquire", e))
    }

    /// Listens if it doesn't yet. Whether it just began to.
    async fn listen(&mut self) -> bool {
        if self.listening != Listening::NotYet {
            return false;
        }
        match self.claim.listen().await {
            Ok(()) => self.listening = Listening::Yes,
            Err(e) if e.kind() == ErrorKind::Unsupported => self.listening = Listening::Never,
            Err(e) => self.trouble("listen", &e),
        }
        self.listening == Listening::Yes
    }

    /// Lets others have a go: one wake-up, or a short while.
    async fn stand_back(&mut self) {
        self.listen().await;
        let clock = &self.shared.clock;
        tokio::select! {
            biased;
            () = self.claim.changed(), if self.listening == Listening::Yes => {}
            () = clock.sleep(STAND_BACK) => {}
        }
    }

    /// How long to wait for a wake-up before the next look.
    fn pause(&self, busy: Busy) -> Duration {
        let random = &self.shared.random;
        let pushed = self.listening == Listening::Yes && self.shared.driver.info().wakes == Wakes::Pushed;
        let look = match pushed {
            true => backoff::safety(random),
            false => backoff::poll(self.now().since(self.began), random),
        };
        busy.free_in.map_or(look, |free_in| look.min(backoff::after_lease(free_in, random)))
    }

    async fn wait(&mut self, pause: Duration, caller: &mut oneshot::Sender<Answer>) -> Result<()> {
        let clock = &self.shared.clock;
        tokio::select! {
            biased;
            () = caller.closed() => Err(gone()),
            () = self.shared.closing() => Err(shutting_down()),
            () = self.claim.changed(), if self.listening == Listening::Yes => Ok(()),
            () = clock.sleep(pause) => Ok(()),
        }
    }

    fn held(&self, token: FencingToken, since: Instant, until: Instant, valid_for: Duration) -> Held {
        let end = self.terms.max_hold.map(|most| since + most);
        let renew_at = self.terms.renewed.then(|| self.next_renewal(since, valid_for));
        let state = watch::Sender::new(Held::state(until, end));
        let State { until, .. } = *state.borrow();
        Held { token, since, until, renew_at, end, failures: 0, state }
    }

    /// A caller that gets no guard. Nobody may be listening any more.
    fn answer_no(&self, caller: oneshot::Sender<Answer>, answer: Answer) {
        let why = match &answer {
            Ok(_) => Refusal::Busy,
            Err(_) if caller.is_closed() => Refusal::GivenUp,
            Err(_) => Refusal::Error,
        };
        let waited = self.now().since(self.began);
        self.tell(&Event::NotGranted { name: &self.terms.name, why, waited });
        let _: Result<(), _> = caller.send(answer);
    }

    // ---- hold -------------------------------------------------------------------------------------------------------

    /// Keeps the lock until its guard gives it back or goes, or it is lost.
    async fn hold(mut self, mut held: Held, caller: oneshot::Sender<Answer>, turn: Option<Turn>) {
        let waited = self.now().since(self.began);
        self.tell(&Event::Granted { name: &self.terms.name, owner: self.owner, token: held.token, waited });
        let (commands, mut orders) = mpsc::unbounded_channel();
        let granted =
            Granted { owner: self.owner, token: held.token, state: held.state.subscribe(), commands };
        // If nobody takes the guard, its end of the channel is gone, and that is what `orders` says.
        drop(caller.send(Ok(Some(granted))));

        let mut reply = None;
        let lost = loop {
            match self.keep(&mut held, orders.recv()).await {
                Kept::Stopped(Some(Command::Renew { ttl, reply })) => {
                    let outcome = self.confirm(&mut held, ttl).await;
                    let _: Result<(), _> = reply.send(outcome);
                }
                Kept::Stopped(Some(Command::Release(asker))) => {
                    reply = Some(asker);
                    break None;
                }
                Kept::Stopped(None) => break None,
                Kept::Lost(cause) => break Some(cause),
            }
        };
        let lost = match (lost, self.terms.min_hold) {
            (None, Some(least)) => self.linger(&mut held, least).await,
            (lost, _) => lost,
        };
        self.leave(held, lost, turn, reply).await;
    }

    /// A lock that is to be held for a while at least goes on without its guard.
    async fn linger(&mut self, held: &mut Held, least: Duration) -> Option<Cause> {
        let clock = self.shared.clock.clone();
        match self.keep(held, clock.sleep_until(held.since + least)).await {
            Kept::Stopped(()) => None,
            Kept::Lost(cause) => Some(cause),
        }
    }

    /// Renews in time, until `stop` resolves or the lock is lost.
    async fn keep<T>(&mut self, held: &mut Held, stop: impl Future<Output = T>) -> Kept<T> {
        let mut stop = pin!(stop);
        let clock = self.shared.clock.clone();
        loop {
            // A guard that was told may not be told otherwise, whoever noticed.
            if let Some(cause) = held.state.borrow().lost {
                return Kept::Lost(cause);
            }
            let next = held.renew_at.map_or(held.until, |at| at.min(held.until));
            let due = tokio::select! {
                biased;
                order = &mut stop => return Kept::Stopped(order),
                // A fixed lease is looked at, not prolonged.
                () = self.claim.changed() => if self.terms.renewed { self.terms.ttl } else { LOOK },
                () = clock.sleep_until(next) => self.terms.ttl,
            };
            if clock.now() >= held.until {
                self.lose(held, held.at_end());
                continue;
            }
            // What came of it stands in `held`.
            self.confirm(held, due).await.ok();
        }
    }

    /// Asks the server to keep the lock for `ttl` more, and tells the guard what came of it.
    async fn confirm(&mut self, held: &mut Held, ttl: Duration) -> Result<Duration> {
        let asked = self.now();
        let ttl = held.end.map_or(ttl, |end| ttl.min(lasting(end.since(asked)))).max(LOOK);
        let clock = self.shared.clock.clone();
        let mut late = false;
        let outcome = {
            let mut call = pin!(self.claim.renew(ttl));
            tokio::select! {
                biased;
                outcome = &mut call => outcome,
                () = clock.sleep_until(held.until) => {
                    // Told now, and not when the server answers.
                    late = true;
                    held.state.send_modify(|state| state.lost = Some(state.at_end));
                    call.await
                }
            }
        };
        if late || clock.now() >= held.until {
            self.lose(held, held.at_end());
            return Err(self.at("renew", lost_because(held.at_end())));
        }
        match outcome {
            Ok(Renewal::Held { valid_for }) => {
                self.tell(&Event::Renewed { name: &self.terms.name, took: self.now().since(asked) });
                self.extend(held, asked, valid_for);
                Ok(held.until.since(self.now()))
            }
            Ok(Renewal::Lost(cause)) => {
                self.lose(held, cause);
                Err(self.at("renew", lost_because(cause)))
            }
            Err(e) => {
                let e = self.at("renew", e);
                self.trouble("renew", &e);
                held.failures += 1;
                // Often enough to have several tries before the deadline.
                let left = held.until.since(self.now());
                let pause = backoff::after_error(held.failures, &self.shared.random).min(left / 4);
                held.renew_at = held.renew_at.map(|_| self.now() + pause.max(SHORTEST_PAUSE));
                Err(e)
            }
        }
    }

    fn extend(&self, held: &mut Held, asked: Instant, valid_for: Duration) {
        held.reaches(asked + certain(valid_for));
        held.failures = 0;
        held.renew_at = held.renew_at.map(|_| self.next_renewal(asked, valid_for));
    }

    /// A third of what is left after asking, up to a tenth of that earlier, so that many locks don't renew as one.
    fn next_renewal(&self, asked: Instant, valid_for: Duration) -> Instant {
        let third = valid_for / 3;
        asked + (third - self.shared.random.up_to(third / 10))
    }

    fn lose(&self, held: &Held, cause: Cause) {
        held.state.send_modify(|state| _ = state.lost.get_or_insert(cause));
        let since = self.now().since(held.since);
        self.tell(&Event::Lost { name: &self.terms.name, owner: self.owner, cause, held: since });
    }

    // ---- leave ------------------------------------------------------------------------------------------------------

    /// Gives the lock back; the next task of this process has its turn as soon as that is done or the lease has ended.
    async fn leave(
        mut self,
        held: Held,
        lost: Option<Cause>,
        turn: Option<Turn>,
        reply: Option<oneshot::Sender<Ending>>,
    ) {
        let mut turn = turn;
        let last_request = held.until.max(self.now() + self.patience);
        let outcome = self.release(last_request, |now| drop(turn.take_if(|_| now >= held.until))).await;
        let ending = match (outcome, lost) {
            (Some(Release::Released { .. }), None) => Ending::Released,
            _ => Ending::Expired,
        };
        if let (Some(turn), Some(Release::Released { others })) = (&turn, outcome) {
            turn.released(others);
        }
        drop(turn);
        let since = self.now().since(held.since);
        self.tell(&Event::Ended { name: &self.terms.name, owner: self.owner, ending, held: since });
        if let Some(reply) = reply {
            let _: Result<(), _> = reply.send(ending);
        }
        self.settle().await;
    }

    /// Takes back whatever an entry that came to nothing left behind, or may yet leave.
    async fn withdraw(mut self) {
        if self.residue == Residue::Nothing {
            return;
        }
        self.release(self.now() + self.patience, |_| {}).await;
        self.settle().await;
    }

    /// An attempt of unknown outcome can take effect until its patience has ended: the release after that is the one
    /// that counts.
    async fn settle(&mut self) {
        if let Residue::UntilThen(at) = self.residue {
            self.shared.clock.sleep_until(at).await;
            self.release(at, |_| {}).await;
        }
    }

    /// Releases until the server answers, or nothing can be left of what was sent until `last_request`: one ttl later,
    /// where leases belong to locks. Where they belong to sessions, a place in the queue would stay as long as the
    /// session: there only an answer ends it.
    async fn release(&mut self, last_request: Instant, mut failed: impl FnMut(Instant)) -> Option<Release> {
        let over = (self.shared.driver.info().lease == Lease::Lock).then_some(last_request + self.terms.ttl);
        for failures in 1.. {
            let hopeless = match self.release_once().await {
                Ok(outcome) => return Some(outcome),
                Err(e) => !e.is_transient(),
            };
            if over.is_some_and(|over| hopeless || self.now() >= over) {
                break;
            }
            failed(self.now());
            self.shared.clock.sleep(backoff::after_error(failures, &self.shared.random)).await;
        }
        None
    }

    async fn release_once(&mut self) -> Result<Release> {
        let asked = self.now();
        let outcome = self.claim.release().await.map_err(|e| self.at("release", e));
        match &outcome {
            Ok(_) => match self.residue {
                Residue::UntilThen(at) if at > asked => {}
                _ => self.residue = Residue::Nothing,
            },
            Err(e) => self.trouble("release", e),
        }
        outcome
    }

    // ---- all of them ------------------------------------------------------------------------------------------------

    /// What was on its way stays on its way.
    fn leaves(&mut self, residue: Residue) {
        self.residue = match (self.residue, residue) {
            (Residue::UntilThen(a), Residue::UntilThen(b)) => Residue::UntilThen(a.max(b)),
            (Residue::UntilThen(a), _) => Residue::UntilThen(a),
            (_, new) => new,
        };
    }

    fn now(&self) -> Instant {
        self.shared.clock.now()
    }

    fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }

    fn trouble(&self, operation: &'static str, error: &Error) {
        self.tell(&Event::Trouble { name: &self.terms.name, operation, error });
    }

    fn tell(&self, event: &Event<'_>) {
        self.shared.events.tell(event);
    }
}

/// A renewal that only looks: no lease is shorter.
const LOOK: Duration = Duration::from_millis(1);
/// Between two renewals, however little is left.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// The part of a lease to count on: clocks' rates differ by up to 1 %, and servers round to the millisecond.
fn certain(lease: Duration) -> Duration {
    lease.saturating_sub(lease / 100).saturating_sub(Duration::from_millis(2))
}

/// A lease of which this much is certain.
fn lasting(certain: Duration) -> Duration {
    certain.saturating_add(certain / 50).saturating_add(Duration::from_millis(4))
}

pub(crate) fn lost_because(cause: Cause) -> Error {
    Error::lost(format!("the lock was lost: {cause}"))
}

fn too_slow() -> Error {
    Error::unavailable(
        Done::No,
        "the server's answer took longer than the lease that it granted; ask for a longer ttl",
    )
}

/// Nobody hears this.
fn gone() -> Error {
    Error::unavailable(Done::No, "the caller went away")
}

fn shutting_down() -> Error {
    Error::unavailable(Done::No, "this client is shutting down")
}
