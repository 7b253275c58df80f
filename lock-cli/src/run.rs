//! `lock run`: acquires, runs the command, releases.

use std::time::Duration;

use onelock::{Client, Clock, DEFAULT_TTL, Ending, Guard, Instant, Label, Lock, Options};
use tokio::runtime::Builder;

use crate::args::{Run, Waiting};
use crate::child::{self, Ended, Margins};
use crate::exit::{Exit, Failure};
use crate::os::{Process, Signals};

/// How long the last requests to the server may take: what is left behind then, its ttl ends.
const LAST_REQUESTS: Duration = Duration::from_secs(2);
/// Between two tries to reach the server.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// However short the wait is, the server has this long for its first answer.
const FIRST_ANSWER: Duration = Duration::from_millis(100);
/// How long to look for the name of the holder who kept us waiting.
const HOLDER_LOOK: Duration = Duration::from_secs(1);

impl Run {
    /// Answers when the command has ended and the lock is released, or with the reason why not.
    pub(crate) fn carry_out(self) -> Result<Exit, Failure> {
        let url = self.url()?;
        // One thread: it has nothing to do that would need a second.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(self.on_server(&url));
        // A thread that still looks up a host's name is not waited for.
        runtime.shutdown_background();
        outcome
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
            client = connect(url, &options, give_up, &clock) => client?,
        };
        let outcome = self.with_client(&client, &clock, give_up, &mut signals).await;
        // Whoever withdrew or failed leaves nothing on the server either.
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    async fn with_client(
        &self,
        client: &Client,
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
        let variables = [("LOCK_NAME", self.name.to_string()), ("LOCK_TOKEN", guard.token().to_string())];
        let margins = Margins::of(self.ttl.unwrap_or(DEFAULT_TTL));
        let mut process = Process::start(&self.command, &variables, margins.deadline(&guard))?;
        let ended = child::supervise(&mut process, &guard, margins, signals).await;
        // If the command could not be seen to its end, this ends it: before the release.
        drop(process);
        let ending = release(guard, signals).await;
        self.verdict(ended?, ending)
    }

    fn lock(&self, client: &Client, wait: Option<Duration>) -> Result<Lock, Failure> {
        let mut lock = client.lock(self.name.as_str());
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(wait) = wait {
            lock = lock.wait(wait);
        }
        Ok(lock.build()?)
    }

    async fn acquire(&self, lock: &Lock, clock: &Clock) -> Result<Guard, Failure> {
        let guard = match self.waiting() {
            Waiting::No => lock.try_acquire().await?,
            Waiting::AtMost(_) | Waiting::ForEver => match lock.acquire().await {
                Err(e) if e.kind() == onelock::ErrorKind::Timeout => None,
                outcome => Some(outcome?),
            },
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
        Failure::new(Exit::NotAcquired, format!("{:?} not acquired{within}: {holder}", self.name))
    }

    fn verdict(&self, ended: Ended, ending: Ending) -> Result<Exit, Failure> {
        let lost = |what: String| Err(Failure::new(Exit::Lost, what));
        let name = &self.name;
        match (ended, ending) {
            (Ended::ByItself(exit), Ending::Released) => Ok(exit),
            (Ended::ByItself(_), Ending::Expired) => lost(format!(
                "{name:?} was lost before the command ended, or the server could not be asked whether it was"
            )),
            (Ended::Terminated, _) => lost(format!(
                "the lease of {name:?} could not be renewed: the command was terminated in time"
            )),
            (Ended::Killed(cause), _) => lost(format!("{name:?} was lost ({cause}): the command was killed")),
        }
    }

    /// What others see of this holder.
    fn label(&self) -> String {
        self.label.clone().unwrap_or_else(|| Label::of_program(&self.command[0]).to_string())
    }
}

/// Opens the server: at once or not at all, or until `give_up`.
async fn connect(
    url: &str,
    options: &Options,
    give_up: Option<Instant>,
    clock: &Clock,
) -> Result<Client, Failure> {
    loop {
        let attempt = onelock::connect_with(url, options.clone());
        let Some(give_up) = give_up else { return Ok(attempt.await?) };
        let limit = give_up.since(clock.now()).max(FIRST_ANSWER);
        let error = match clock.timeout(limit, attempt).await {
            Some(Err(e)) if e.is_transient() => e.to_string(),
            Some(outcome) => return Ok(outcome?),
            None => "it does not answer".to_owned(),
        };
        if clock.now() + RECONNECT_PAUSE >= give_up {
            let what = format!("the server was not reachable within the wait: {error}");
            return Err(Failure::new(Exit::Unavailable, what));
        }
        clock.sleep(RECONNECT_PAUSE).await;
    }
}

/// With a server that doesn't answer this takes until the lease ends: whoever doesn't want to wait for that may say so
/// with a signal.
async fn release(guard: Guard, signals: &mut Signals) -> Ending {
    tokio::select! {
        biased;
        ending = guard.release() => ending,
        _ = signals.next() => Ending::Expired,
    }
}
