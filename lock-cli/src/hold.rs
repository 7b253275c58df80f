//! `lock hold`: keeps a lock for the program that has started it, in whatever language that is written.

use std::time::Duration;

use onelock::{Client, Guard, LossReason};

use crate::acquisition::held::{self, LockIdentity};
use crate::acquisition::{Acquisition, LAST_REQUESTS, Notice, server};
use crate::args::{Hold, Voice};
use crate::event::{Event, with_troubles};
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::os::{Signal, Signals};
use crate::print::Lines;
use crate::run::release::{self, Release};

impl Hold {
    /// Returns when the lock is released or lost, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let outcome = self.on_server(&Lines::of_stdout()).await;
        outcome.or_else(|failure| failure.unless_quiet(self.terms.voice()))
    }

    async fn on_server(&self, lines: &Lines) -> Result<Exit, Failure> {
        let url = self.terms.ask.server.url()?;
        let mut ends = Ends { signals: Signals::listen()?, input: Input::watch()? };
        let acquisition = self.terms.begin(self.notice(lines))?;
        let client = tokio::select! {
            biased;
            end = ends.next() => return end.of_the_wait(),
            client = acquisition.connect(&url, self.options(lines)) => client?,
        };
        held::refuse_nested(&LockIdentity::of(&client, &url, &self.terms.name)?, &client).await?;
        let outcome = self.with_client(&client, &acquisition, lines, &mut ends).await;
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    async fn with_client(
        &self,
        client: &Client,
        acquisition: &Acquisition<'_>,
        lines: &Lines,
        ends: &mut Ends,
    ) -> Result<Exit, Failure> {
        let lock = self.terms.lock(client, acquisition.left())?;
        let server = server(client);
        let guard = tokio::select! {
            biased;
            end = ends.next() => return end.of_the_wait(),
            guard = acquisition.acquire(&lock, &server) => guard?,
        };
        let held = self.line(Event::Held { token: guard.token(), valid_for: guard.valid_for() });
        tokio::select! {
            biased;
            reason = guard.lost() => self.end_lost(guard, lock.ttl(), reason, acquisition, lines, ends).await,
            _ = ends.next() => self.end_held(guard, acquisition, lines, &mut ends.signals).await,
            untold = untold(lines, held) => self.give_back(guard, untold, acquisition, lines, &mut ends.signals).await,
        }
    }

    /// Releases a lock that its user doesn't know of. Its user may still read that it is held: then it also reads that
    /// it was released.
    async fn give_back(
        &self,
        guard: Guard,
        untold: Failure,
        acquisition: &Acquisition<'_>,
        lines: &Lines,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let _: Result<Exit, Failure> = self.end_held(guard, acquisition, lines, signals).await;
        Err(untold)
    }

    async fn end_held(
        &self,
        guard: Guard,
        acquisition: &Acquisition<'_>,
        lines: &Lines,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        match release::release(guard, None, acquisition.clock(), signals).await {
            Release::InTime | Release::Kept | Release::Signalled(_) => {
                lines.say(self.line(Event::Released));
                Ok(Exit::Status(0))
            }
            Release::TooLate => {
                lines.say(self.line(Event::Lost { reason: LossReason::Expired }));
                Err(self.terms.lost(LossReason::Expired))
            }
        }
    }

    /// Tells the loss. What was revoked stays reserved while the work under it stops, at most for the ttl: the work has
    /// stopped when stdin is closed or a signal comes.
    async fn end_lost(
        &self,
        guard: Guard,
        ttl: Duration,
        reason: LossReason,
        acquisition: &Acquisition<'_>,
        lines: &Lines,
        ends: &mut Ends,
    ) -> Result<Exit, Failure> {
        lines.say(self.line(Event::Lost { reason }));
        if let LossReason::Revoked | LossReason::Session = reason {
            let _: Option<End> = acquisition.clock().timeout(ttl, ends.next()).await;
        }
        drop(guard);
        Err(self.terms.lost(reason))
    }

    fn notice(&self, lines: &Lines) -> Notice {
        match (self.terms.voice(), self.json) {
            (Voice::Usual | Voice::Verbose, true) => Notice::Events(lines.clone()),
            (voice, _) => Notice::of(voice),
        }
    }

    fn options(&self, lines: &Lines) -> onelock::Options {
        let (lines, name, json) = (lines.clone(), self.terms.name.clone(), self.json);
        with_troubles(self.terms.options("hold"), move |event| {
            lines.say(if json { event.json(&name) } else { event.words() });
        })
    }

    fn line(&self, event: Event<'_>) -> String {
        if self.json { event.json(&self.terms.name) } else { event.words() }
    }
}

/// Tells that the lock is held. Returns only if that can't be told.
async fn untold(lines: &Lines, held: String) -> Failure {
    match lines.tell(held).await {
        Ok(()) => std::future::pending().await,
        Err(untold) => untold,
    }
}

/// The ends of a hold from outside.
struct Ends {
    signals: Signals,
    input: Input,
}

enum End {
    Signal(Signal),
    Input,
}

impl Ends {
    /// Waits for a signal that asks this program to end, or for the end of stdin. Cancel safe.
    async fn next(&mut self) -> End {
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => if signal.asks_to_end() {
                    return End::Signal(signal);
                },
                () = self.input.closed() => return End::Input,
            }
        }
    }
}

impl End {
    /// Returns the end of a call that did not get the lock before.
    fn of_the_wait(self) -> Result<Exit, Failure> {
        match self {
            End::Signal(signal) => Ok(Exit::Signal(signal.number())),
            End::Input => Err(Failure::new(
                Exit::Usage,
                "stdin was closed before the lock was acquired, so it would be released at once; give lock hold a \
                 pipe whose other end is open for as long as the lock is needed",
            )),
        }
    }
}
