//! `lock run`: acquires the lock, runs the command, releases the lock.

mod complete;
mod held;
mod hold;
mod notice;
mod reach;
mod release;

use std::time::Duration;

use onelock::{Client, Clock, DEFAULT_TTL, Instant, Label, Lock, LossReason, Options, Period};

use self::held::Place;
use self::hold::{Asked, Hold};
use self::notice::Notice;
use self::release::Release;
use crate::args::{Run, Waiting};
use crate::child::{self, Ended, Margins};
use crate::exit::{Exit, Failure};
use crate::os::{Process, Signals};
use crate::print;

/// How long the last requests to the server may take. What is left on the server then ends with its ttl.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// How long to ask for the holder's name after a failed acquisition.
const HOLDER_LOOK: Duration = Duration::from_secs(1);

impl Run {
    /// Returns when the command has ended and the lock is released, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        self.refuse_impossible_terms()?;
        let url = self.server.url()?;
        self.on_server(&url).await
    }

    async fn on_server(&self, url: &str) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let clock = Clock::system();
        let give_up = match self.waiting() {
            Waiting::AtMost(wait) => Some(clock.now() + wait),
            Waiting::ForEver | Waiting::No => None,
        };
        let options = Options::default().label(&self.label()).clock(clock.clone());
        let client = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            client = reach::reach(url, &options, give_up, &clock) => client?,
        };
        let place = Place::of(&client, url, &self.name)?;
        held::refuse_nested(&place, &client)?;
        let outcome = self.with_client(&client, &place, &clock, give_up, &mut signals).await;
        // A call that was interrupted or failed leaves nothing on the server either.
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    async fn with_client(
        &self,
        client: &Client,
        place: &Place,
        clock: &Clock,
        give_up: Option<Instant>,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let began = clock.now();
        let info = client.info();
        // Without --ttl, the value nearest to the default that the server accepts.
        let ttl = self.ttl.unwrap_or(DEFAULT_TTL.clamp(info.min_ttl, info.max_ttl));
        let margins = Margins::of(ttl, self.kill_grace);
        let lock = self.lock(client, margins, give_up.map(|at| at.since(began)))?;
        let asked = self.asked(&lock)?;
        let server = server(client);
        let guard = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            guard = self.acquire(&asked, &lock, &server, clock) => guard?,
        };
        let granted = clock.now();
        if self.verbose {
            let (name, token, waited) = (guard.name(), guard.token(), granted.since(began));
            print::note(format!("acquired {name:?} on {server} with token {token} after {waited:.1?}"));
        }
        let variables = [
            ("LOCK_NAME", self.name.to_string()),
            ("LOCK_TOKEN", guard.token().to_string()),
            held::variable(place, client),
        ];
        let deadline = margins.deadline(&guard);
        let mut process = Process::start(&self.command, &variables, deadline)?;
        let ended = child::supervise(&mut process, &guard, margins, deadline, signals).await;
        // If the supervision failed, this ends the command, before the lock is released.
        drop(process);
        let release = match (guard, &ended) {
            (Hold::Slot(guard), Ok(Ended::ByItself(Exit::Status(0)))) => {
                complete::complete(guard, clock, signals).await
            }
            (guard, _) => {
                let kept_until = self.min_hold.map(|least| granted + least);
                release::release(guard, kept_until, clock, signals).await
            }
        };
        self.verdict(ended?, release)
    }

    /// Checks terms that the core can't check, because it does not know the command's grace.
    fn refuse_impossible_terms(&self) -> Result<(), Failure> {
        let what = match (self.min_hold, self.max_hold) {
            (_, Some(Duration::ZERO)) => "--max-hold must not be zero".to_owned(),
            (Some(least), Some(most)) if least > most => {
                format!("--min-hold ({least:?}) is more than --max-hold ({most:?})")
            }
            _ => return Ok(()),
        };
        Err(Failure::new(Exit::Usage, what))
    }

    fn lock(&self, client: &Client, margins: Margins, wait: Option<Duration>) -> Result<Lock, Failure> {
        let mut lock = client.lock(self.name.as_str());
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(wait) = wait {
            lock = lock.wait(wait);
        }
        if let Some(most) = self.max_hold {
            // The command may use all of it. Then it gets SIGTERM, and the lock is kept for its grace.
            lock = lock.max_hold(most.saturating_add(margins.terminate()));
        }
        if let Some(least) = self.min_hold {
            lock = lock.min_hold(least);
        }
        Ok(lock.build()?)
    }

    /// Returns the lock that the call asks for: `lock` itself, or once per period.
    fn asked(&self, lock: &Lock) -> Result<Asked, Failure> {
        let Some(length) = self.once_per else { return Ok(Asked::Lock(lock.clone())) };
        let period = Period::every(length)?.at_offset(self.at_offset.unwrap_or_default())?;
        Ok(Asked::OncePer(lock.clone().once_per(period)?))
    }

    async fn acquire(
        &self,
        asked: &Asked,
        lock: &Lock,
        server: &str,
        clock: &Clock,
    ) -> Result<Hold, Failure> {
        let guard = match self.waiting() {
            Waiting::No => asked.try_acquire().await?,
            Waiting::AtMost(_) | Waiting::ForEver => {
                let notice = Notice::of(self.verbose);
                match notice.while_waiting(asked.acquire(), lock, server, clock).await {
                    Err(e) if e.kind() == onelock::ErrorKind::Timeout => None,
                    outcome => Some(outcome?),
                }
            }
        };
        match guard {
            Some(guard) => Ok(guard),
            None => Err(self.not_acquired(lock, clock).await),
        }
    }

    /// The failure if the lock was not acquired. Names the holder, if the lock is still held.
    async fn not_acquired(&self, lock: &Lock, clock: &Clock) -> Failure {
        let look = clock.timeout(HOLDER_LOOK, lock.inspect()).await;
        let holder = look.and_then(Result::ok).and_then(|inspection| inspection.holder);
        let holder = holder
            .map_or_else(|| "held by another client a moment ago".to_owned(), |holder| holder.to_string());
        let within = match self.waiting() {
            Waiting::AtMost(wait) => format!(" within {wait:?}"),
            Waiting::ForEver | Waiting::No => String::new(),
        };
        Failure::new(
            Exit::NotAcquired(self.conflict_exit_code),
            format!("{:?} not acquired{within}: {holder}", self.name),
        )
    }

    fn verdict(&self, ended: Ended, release: Release) -> Result<Exit, Failure> {
        let lost = |what: String| Err(Failure::new(Exit::Lost, what));
        let name = &self.name;
        match (ended, release) {
            (Ended::ByItself(exit), Release::InTime) => Ok(exit),
            // The signal came after the command had ended by itself, while the lock was kept for --min-hold.
            (Ended::ByItself(_), Release::Signalled(signal)) => Ok(Exit::Signal(signal)),
            (Ended::ByItself(_), Release::TooLate) => lost(format!(
                "{name:?} was lost before the command ended, or the server could not be asked whether it was"
            )),
            (Ended::Terminated(LossReason::MaxHold) | Ended::Killed(LossReason::MaxHold), _) => {
                Err(Failure::new(
                    Exit::HeldForLong,
                    format!("{name:?} was held for as long as --max-hold allows: the command was ended"),
                ))
            }
            (Ended::Terminated(cause), _) => lost(match cause {
                LossReason::Revoked => format!("{name:?} was broken: the command was terminated"),
                _ => {
                    format!("the lease of {name:?} could not be renewed: the command was terminated in time")
                }
            }),
            (Ended::Killed(cause), _) => lost(format!("{name:?} was lost ({cause}): the command was killed")),
        }
    }

    /// Returns how other clients see this holder.
    fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| Label::of_program(&self.command[0]).to_string())
    }
}

/// Returns the server's name for messages.
fn server(client: &Client) -> String {
    let info = client.info();
    format!("{} {}", info.backend, info.server).trim_end().to_owned()
}
