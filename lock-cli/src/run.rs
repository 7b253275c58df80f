//! `lock run`: acquires the lock, runs the command, releases the lock.

mod complete;
mod hold;
pub(crate) mod release;

use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use onelock::{Client, Clock, Guard, Instant, Label, Lock, LockBuilder, LossReason, Options, Period};

use self::hold::{Asked, Hold};
use self::release::Release;
use crate::acquisition::held::{self, LockIdentity};
use crate::acquisition::{Acquisition, LAST_REQUESTS, Notice, server};
use crate::args::{Run, Voice};
use crate::child::{self, Ended, Margins, Outcome, Remark};
use crate::event::{Event, with_troubles};
use crate::exit::{Exit, Failure};
use crate::look::millis;
use crate::os::{Daemons, Process, ServiceManager, Signals, Survivor};
use crate::print::{self, Lines};

/// The advice for a command whose daemons are to go on.
const KEEP: &str = "--keep-daemons lets daemons go on";

impl Run {
    /// Returns when the command has ended and the lock is released, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let lines = self.json.then(Lines::of_stderr);
        let outcome = self.told_by(lines.as_ref()).await;
        match (outcome, &lines) {
            (Err(failure), Some(lines)) => {
                let (exit, message) = (failure.exit(), failure.to_string());
                lines.say(Event::Failed { status: exit.code(), message: &message }.json(&self.name));
                Ok(exit)
            }
            (outcome, _) => outcome.or_else(|failure| failure.unless_quiet(self.voice())),
        }
    }

    async fn told_by(&self, lines: Option<&Lines>) -> Result<Exit, Failure> {
        self.refuse_impossible_terms()?;
        let url = self.ask.server.url()?;
        self.on_server(&url, lines).await
    }

    async fn on_server(&self, url: &str, lines: Option<&Lines>) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        let notice = lines.cloned().map_or_else(|| Notice::of(self.voice()), Notice::Events);
        let acquisition = Acquisition::begin(&self.name, &self.ask, notice);
        let client = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            client = acquisition.connect(url, self.options(lines)) => client?,
        };
        let identity = LockIdentity::of(&client, url, &self.name)?;
        held::refuse_nested(&identity, &client).await?;
        let outcome = self.with_client(&client, &identity, &acquisition, lines, &mut signals).await;
        // A call that was interrupted or failed leaves nothing on the server either.
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    async fn with_client(
        &self,
        client: &Client,
        identity: &LockIdentity,
        acquisition: &Acquisition<'_>,
        lines: Option<&Lines>,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let clock = acquisition.clock();
        let began = clock.now();
        let lock = self.ask.lock(client, &self.name, acquisition.left());
        let margins = Margins::of(lock.clone().build()?.ttl(), self.kill_grace);
        let asked = self.asked(self.with_terms(lock)?)?;
        let server = server(client);
        let guard = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            guard = acquisition.acquire(&asked, &server) => guard?,
        };
        let granted = clock.now();
        self.tell_grant(&guard, &server, granted.since(began), lines);
        print::messages_written().await;
        let variables = [
            ("LOCK_NAME", self.name.to_string()),
            ("LOCK_TOKEN", guard.token().to_string()),
            (held::VARIABLE, held::lines(identity, client, guard.token())),
        ];
        let deadline = margins.deadline(&guard);
        let mut process = Process::start(&self.command(), &variables, deadline, self.daemons())?;
        let ends = self.max_hold.map(|most| granted + most);
        let hold = child::Hold { guard: &guard, clock, margins, ends };
        let remark = |remark| self.remark(remark, lines);
        let ended = match child::supervise(&mut process, &hold, deadline, signals, remark).await {
            Ok(Outcome::GoesOn(survivor, lost)) => {
                process.let_go();
                return Err(self.gone_on(survivor, lost, guard));
            }
            Ok(Outcome::Ended(ended)) => Ok(ended),
            Err(failure) => Err(failure),
        };
        let keeps_daemons = self.daemons() == Daemons::Kept && matches!(ended, Ok(Ended::ByItself(_)));
        if !keeps_daemons {
            process.reap();
        }
        let kept_until = self.min_hold.map(|least| granted + least);
        let release = release_after(&ended, guard, kept_until, clock, signals).await;
        let ended = ended?;
        if keeps_daemons {
            self.decide_on_daemons(&mut process, release).await?;
        }
        if let Some(lines) = lines {
            lines.say(last_event(ended, release).json(&self.name));
        }
        self.verdict(ended, release)
    }

    /// Lets the daemons go on, or ends them if the lock was lost.
    async fn decide_on_daemons(&self, process: &mut Process, release: Release) -> Result<(), Failure> {
        match release {
            Release::InTime | Release::Kept | Release::Signalled(_) => process.let_go(),
            Release::TooLate => {
                if let Some(survivor) = child::end_daemons(process).await {
                    let what = format!("{:?} was lost before the command ended, and {survivor}", self.name);
                    return Err(Failure::new(Exit::GoesOn, what));
                }
            }
        }
        Ok(())
    }

    /// Tells what is found when the command ends.
    fn remark(&self, remark: Remark, lines: Option<&Lines>) {
        let event = match remark {
            Remark::LeftBehind(count, found) => Event::LeftBehind { count, found },
            Remark::GoesOn(survivor) => Event::GoesOn { survivor },
        };
        let name = &self.name;
        match (lines, remark) {
            (Some(lines), _) => lines.say(event.json(name)),
            (None, Remark::LeftBehind(..)) if self.voice() == Voice::Quiet => {}
            (None, Remark::LeftBehind(1, found)) => {
                print::note(format!("the command has left {found} running, which is killed ({KEEP})"));
            }
            (None, Remark::LeftBehind(count, found)) => print::note(format!(
                "the command has left {count} processes running, {found} among them, which are killed ({KEEP})"
            )),
            (None, Remark::GoesOn(survivor)) => {
                print::note(format!(
                    "{survivor}; {name:?} is kept until that has ended, or the lock is lost"
                ));
            }
        }
    }

    /// Returns the end of a call whose command goes on. A lock that was lost is given up, one that is ours is left to its
    /// lease.
    fn gone_on(&self, survivor: Survivor, lost: Option<LossReason>, hold: Hold) -> Failure {
        let name = &self.name;
        let what = match lost {
            Some(cause) => format!("{name:?} was lost ({cause}), and {survivor}"),
            None => {
                std::mem::forget(hold);
                format!(
                    "{survivor}; {name:?} stays held until its ttl is over, and then another client can have it"
                )
            }
        };
        Failure::new(Exit::GoesOn, what)
    }

    fn tell_grant(&self, guard: &Guard, server: &str, waited: Duration, lines: Option<&Lines>) {
        let (name, token) = (guard.name(), guard.token());
        if let Some(manager) = ServiceManager::of_this_process() {
            manager.notify(&format!("STATUS=holds {name:?} on {server}"));
        }
        if let Some(lines) = lines {
            lines.say(Event::Held { token, valid_for: guard.valid_for() }.json(&self.name));
        }
        if self.voice() == Voice::Verbose {
            let waited = HumanDuration(Duration::from_millis(millis(waited)));
            print::note(format!("acquired {name:?} on {server} with token {token} after {waited}"));
        }
    }

    /// Checks terms that the core can't check, because it does not know the command's grace.
    fn refuse_impossible_terms(&self) -> Result<(), Failure> {
        let what = match (self.min_hold, self.max_hold) {
            (_, Some(Duration::ZERO)) => "--max-hold must not be zero".to_owned(),
            (Some(least), Some(most)) if least > most => {
                let (least, most) = (HumanDuration(least), HumanDuration(most));
                format!("--min-hold ({least}) is more than --max-hold ({most})")
            }
            _ => return Ok(()),
        };
        Err(Failure::new(Exit::Usage, what))
    }

    /// `--max-hold` is no term of the lock: it ends the command, and the lock is kept until the command has ended.
    fn with_terms(&self, mut lock: LockBuilder) -> Result<Lock, Failure> {
        if let Some(least) = self.min_hold {
            lock = lock.min_hold(least);
        }
        Ok(lock.build()?)
    }

    /// Returns what the call asks for: `lock` itself, or once per period.
    fn asked(&self, lock: Lock) -> Result<Asked, Failure> {
        let Some(length) = self.once_per else { return Ok(Asked::Lock(lock)) };
        let period = Period::every(length)?.with_offset(self.at_offset.unwrap_or_default())?;
        Ok(Asked::OncePer(lock.clone().once_per(period)?, lock))
    }

    fn verdict(&self, ended: Ended, release: Release) -> Result<Exit, Failure> {
        let lost = |what: String| Err(Failure::new(Exit::Lost, what));
        let name = &self.name;
        match (ended, release) {
            (Ended::ByItself(exit), Release::InTime | Release::Kept) => Ok(exit),
            // The signal came after the command had ended by itself, while the lock was kept for --min-hold.
            (Ended::ByItself(_), Release::Signalled(signal)) => Ok(Exit::Signal(signal)),
            (Ended::ByItself(_), Release::TooLate) => lost(format!(
                "{name:?} was lost before the command ended, or the server could not be asked whether it was"
            )),
            (Ended::Terminated(LossReason::MaxHold) | Ended::Killed(LossReason::MaxHold), _) => {
                Err(Failure::new(
                    Exit::HeldForLong(self.max_hold_exit_code),
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

    fn options(&self, lines: Option<&Lines>) -> Options {
        // How other clients see this holder.
        let label = self.label.clone().unwrap_or_else(|| Label::of_program(&self.command()[0]).to_string());
        let options = Options::default().label(label);
        match lines.cloned() {
            Some(lines) => {
                let name = self.name.clone();
                with_troubles(options, move |event| lines.say(event.json(&name)))
            }
            None => options,
        }
    }
}

/// Releases the lock, or keeps the slot of a command that has ended well.
async fn release_after(
    ended: &Result<Ended, Failure>,
    hold: Hold,
    kept_until: Option<Instant>,
    clock: &Clock,
    signals: &mut Signals,
) -> Release {
    match (hold, ended) {
        (Hold::Slot(guard), Ok(Ended::ByItself(Exit::Status(0)))) => {
            complete::complete(guard, clock, signals).await
        }
        (hold, _) => release::release(hold, kept_until, clock, signals).await,
    }
}

/// Returns the event at the end of the hold.
fn last_event(ended: Ended, release: Release) -> Event<'static> {
    match (ended, release) {
        (Ended::Terminated(reason) | Ended::Killed(reason), _) => Event::Lost { reason },
        (Ended::ByItself(_), Release::TooLate) => Event::Lost { reason: LossReason::Expired },
        (Ended::ByItself(_), Release::Kept) => Event::Kept,
        (Ended::ByItself(_), Release::InTime | Release::Signalled(_)) => Event::Released,
    }
}
