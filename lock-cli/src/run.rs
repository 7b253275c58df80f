//! `lock run`: acquires, runs the command, releases.

mod held;
mod notice;
mod reach;

use std::time::Duration;

use onelock::{Cause, Client, Clock, DEFAULT_TTL, Ending, Guard, Instant, Label, Lock, Options};

use self::held::Place;
use crate::args::{Run, Waiting};
use crate::child::{self, Ended, Margins};
use crate::exit::{Exit, Failure};
use crate::os::{Process, Signals};

/// How long the last requests to the server may take: what is left behind then, its ttl ends.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// How long to look for the name of the holder who kept us waiting.
const HOLDER_LOOK: Duration = Duration::from_secs(1);

impl Run {
    /// Answers when the command has ended and the lock is released, or with the reason why not.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
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
        held::refuse_nested(&place, &self.name)?;
        let outcome = self.with_client(&client, &place, &clock, give_up, &mut signals).await;
        // Whoever withdrew or failed leaves nothing on the server either.
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
        let lock = self.lock(client, give_up.map(|at| at.since(began)))?;
        let guard = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            guard = self.acquire(&lock, clock) => guard?,
        };
        if self.verbose {
            let (name, token, waited) = (guard.name(), guard.token(), clock.now().since(began));
            eprintln!("lock: acquired {name:?} with token {token} after {waited:.1?}");
        }
        let variables = [
            ("LOCK_NAME", self.name.to_string()),
            ("LOCK_TOKEN", guard.token().to_string()),
            held::variable(place),
        ];
        let margins = Margins::of(self.ttl.unwrap_or(DEFAULT_TTL), self.kill_grace);
        let mut process = Process::start(&self.command, &variables, margins.deadline(&guard))?;
        let ended = child::supervise(&mut process, &guard, margins, signals).await;
        // If the command could not be seen to its end, this ends it: before the release.
        drop(process);
        let release = release(guard, signals).await;
        self.verdict(ended?, release)
    }

    fn lock(&self, client: &Client, wait: Option<Duration>) -> Result<Lock, Failure> {
        let mut lock = client.lock(self.name.as_str());
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(wait) = wait {
            lock = lock.wait(wait);
        }
        if let Some(most) = self.max_hold {
            lock = lock.max_hold(most);
        }
        if let Some(least) = self.min_hold {
            lock = lock.min_hold(least);
        }
        Ok(lock.build()?)
    }

    async fn acquire(&self, lock: &Lock, clock: &Clock) -> Result<Guard, Failure> {
        let guard = match self.waiting() {
            Waiting::No => lock.try_acquire().await?,
            Waiting::AtMost(_) | Waiting::ForEver => {
                match notice::while_waiting(lock.acquire(), lock, clock).await {
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

    /// Names the holder, if it is still there to be named.
    async fn not_acquired(&self, lock: &Lock, clock: &Clock) -> Failure {
        let look = clock.timeout(HOLDER_LOOK, lock.inspect()).await;
        let holder = look.and_then(Result::ok).and_then(|inspection| inspection.holder);
        let holder = holder
            .map_or_else(|| "held by somebody else a moment ago".to_owned(), |holder| holder.to_string());
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
            // The server was not asked: the lock was to be kept, and is until its lease ends.
            (Ended::ByItself(_), Release::NotWaitedFor(signal)) if self.min_hold.is_some() => {
                Ok(Exit::Signal(signal))
            }
            (Ended::ByItself(_), Release::TooLate | Release::NotWaitedFor(_)) => lost(format!(
                "{name:?} was lost before the command ended, or the server could not be asked whether it was"
            )),
            (Ended::Terminated(Cause::MaxHold) | Ended::Killed(Cause::MaxHold), _) => lost(format!(
                "{name:?} was held for as long as --max-hold allows: the command was ended in time"
            )),
            (Ended::Terminated(cause), _) => lost(match cause {
                Cause::Revoked => format!("{name:?} was broken: the command was terminated"),
                _ => {
                    format!("the lease of {name:?} could not be renewed: the command was terminated in time")
                }
            }),
            (Ended::Killed(cause), _) => lost(format!("{name:?} was lost ({cause}): the command was killed")),
        }
    }

    /// What others see of this holder.
    fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| Label::of_program(&self.command[0]).to_string())
    }
}

/// With a server that doesn't answer this takes until the lease ends: whoever doesn't want to wait for that may say so
/// with a signal.
async fn release(guard: Guard, signals: &mut Signals) -> Release {
    tokio::select! {
        biased;
        ending = guard.release() => match ending {
            Ending::Released => Release::InTime,
            Ending::Expired => Release::TooLate,
        },
        signal = signals.next() => Release::NotWaitedFor(signal.number()),
    }
}

/// What became of the release.
#[derive(Clone, Copy, Debug)]
enum Release {
    InTime,
    TooLate,
    /// This signal came first.
    NotWaitedFor(i32),
}
