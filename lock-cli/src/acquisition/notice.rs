//! Notices to the user while the program waits for the server and the lock.

mod live;

use std::io::{self, IsTerminal};
use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use onelock::{Clock, Entry, Instant, Lock};

use self::live::LiveLine;
use crate::args::Voice;
use crate::event::Event;
use crate::os::ServiceManager;
use crate::print::{self, Lines};

/// The wait before the first line. A line that disappears sooner can't be read.
const FIRST: Duration = Duration::from_millis(300);
/// The pause between two lines of a log.
const EACH_IN_A_LOG: Duration = Duration::from_secs(60);
/// The pause between two messages to the service manager, and how long it then waits for the next one.
const EACH_TO_THE_SERVICE: Duration = Duration::from_secs(20);
const SERVICE_WAITS: Duration = Duration::from_secs(60);

/// The form in which users are notified of a wait.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// Not at all.
    Nothing,
    /// For a log: a line at the start of the wait, and one a minute.
    Log,
    /// For a user at a terminal: a line, and below it a line that changes: who holds the lock, and since when.
    Live,
    /// For a program: as for a log, as events.
    Events(Lines),
}

impl Notice {
    /// Returns how a call with this voice tells people of its wait.
    pub(crate) fn of(voice: Voice) -> Notice {
        match (voice, io::stderr().is_terminal()) {
            (Voice::Quiet, _) => Notice::Nothing,
            (Voice::Usual | Voice::Verbose, true) => Notice::Live,
            (Voice::Usual | Voice::Verbose, false) => Notice::Log,
        }
    }

    /// Waits for `acquire` and returns its outcome. Meanwhile tells the user. However this ends, also by a signal, the
    /// terminal's changing line is gone afterwards.
    pub(super) async fn while_waiting<H>(
        &self,
        acquire: impl Future<Output = onelock::Result<H>>,
        lock: &Lock,
        server: &str,
        clock: &Clock,
    ) -> onelock::Result<H> {
        tokio::select! {
            biased;
            outcome = acquire => outcome,
            never = self.tell(lock, server, clock) => never,
            never = tell_service(lock, server, clock) => never,
        }
    }

    async fn tell<T>(&self, lock: &Lock, server: &str, clock: &Clock) -> T {
        let began = clock.now();
        clock.sleep(FIRST).await;
        match self {
            Notice::Nothing => std::future::pending().await,
            Notice::Live => {
                print::note(format!("waiting for {:?} on {server}", lock.name().as_str()));
                LiveLine::default().show(lock, clock).await
            }
            Notice::Log | Notice::Events(_) => loop {
                let seen = Seen::now(lock).await;
                self.say(lock, server, clock.now().since(began), &seen);
                clock.sleep(EACH_IN_A_LOG).await;
            },
        }
    }

    fn say(&self, lock: &Lock, server: &str, waited: Duration, seen: &Seen) {
        let name = lock.name();
        match self {
            Notice::Nothing | Notice::Live => {}
            Notice::Log if waited < EACH_IN_A_LOG => {
                print::note(format!("waiting for {name:?} on {server}: {}", seen.text()));
            }
            Notice::Log => {
                let waited = in_seconds(waited);
                print::note(format!("waiting for {name:?} on {server} for {waited}: {}", seen.text()));
            }
            Notice::Events(lines) => {
                let holder = match seen {
                    Seen::Held(holder) => Some(holder),
                    Seen::Free | Seen::Unknown(_) => None,
                };
                lines.say(Event::Waiting { server, waited, holder }.json(name));
            }
        }
    }

    /// Returns what tells users that the server can't be reached: at the first error, and then once a minute.
    pub(super) fn of_outage<'a>(&'a self, clock: &'a Clock) -> Outage<'a> {
        Outage { notice: self, clock, next: clock.now() }
    }
}

/// Tells of a server that can't be reached.
pub(super) struct Outage<'a> {
    notice: &'a Notice,
    clock: &'a Clock,
    /// When the next line may be said.
    next: Instant,
}

impl Outage<'_> {
    pub(super) fn tell(&mut self, error: &str) {
        let now = self.clock.now();
        if now < self.next {
            return;
        }
        self.next = now + EACH_IN_A_LOG;
        match self.notice {
            Notice::Nothing => {}
            Notice::Log | Notice::Live => print::note(format!("waiting for the server: {error}")),
            Notice::Events(lines) => lines.say(Event::Unreachable { error }.without_a_name()),
        }
    }
}

/// Tells the service manager, if one has started this program, what is waited for, so that it doesn't take the wait for
/// a start that hangs.
async fn tell_service<T>(lock: &Lock, server: &str, clock: &Clock) -> T {
    let Some(manager) = ServiceManager::of_this_process() else { return std::future::pending().await };
    let name = lock.name();
    loop {
        // First without a look at the lock, which may take its time.
        manager.notify(&format!(
            "STATUS=waiting for {name:?} on {server}\nEXTEND_TIMEOUT_USEC={}",
            SERVICE_WAITS.as_micros()
        ));
        let seen = Seen::now(lock).await.text().replace(char::is_control, " ");
        manager.notify(&format!("STATUS=waiting for {name:?} on {server}: {seen}"));
        clock.sleep(EACH_TO_THE_SERVICE).await;
    }
}

/// The result of a look at the lock.
enum Seen {
    Held(Entry),
    Free,
    Unknown(String),
}

impl Seen {
    async fn now(lock: &Lock) -> Seen {
        match lock.inspect().await.map(|inspection| inspection.holder) {
            Ok(Some(holder)) => Seen::Held(holder),
            Ok(None) => Seen::Free,
            Err(error) => Seen::Unknown(error.message().to_owned()),
        }
    }

    fn text(&self) -> String {
        match self {
            Seen::Held(holder) if holder.is_done() => holder.to_string(),
            Seen::Held(holder) => {
                let since = holder.since.map_or(String::new(), |since| format!(" for {}", in_seconds(since)));
                format!("held by {}{since}", who(holder))
            }
            Seen::Free => "free a moment ago".to_owned(),
            Seen::Unknown(error) => error.clone(),
        }
    }
}

/// Shows a duration without the parts of a second.
fn in_seconds(duration: Duration) -> HumanDuration {
    HumanDuration(Duration::from_secs(duration.as_secs()))
}

/// Returns the holder as people know it.
fn who(holder: &Entry) -> String {
    holder.label.as_ref().map_or_else(|| holder.owner.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use onelock::memory::Memory;
    use onelock::{Options, Result};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_reported_at_once_and_every_minute() -> Result<()> {
        let (clock, server) = (Clock::tokio(), Memory::new());
        let client = async |label: &str| server.client_with(Options::default().label(label)).await;
        let (holder, waiter) = (client("the holder").await?, client("the waiter").await?);
        let guard = holder.lock("report").build()?.acquire().await?;
        let lock = waiter.lock("report").wait(Duration::from_secs(190)).build()?;

        let (lines, said) = Lines::collected();
        let acquire = lock.acquire();
        let outcome = Notice::Events(lines.clone()).while_waiting(acquire, &lock, "memory", &clock).await;
        assert_eq!(outcome.unwrap_err().kind(), onelock::ErrorKind::Timeout);
        drop(guard);

        lines.finish();
        let said: Vec<serde_json::Value> =
            said.try_iter().map(|line| serde_json::from_str(&line).unwrap()).collect();
        let minutes: Vec<u64> = said.iter().map(|line| line["waited_ms"].as_u64().unwrap() / 1000).collect();
        assert_eq!(minutes, [0, 60, 120, 180]);
        assert!(said.iter().all(|line| line["holder"]["label"] == "the holder"), "{said:?}");
        assert!(said.iter().all(|line| line["server"] == "memory" && line["name"] == "report"), "{said:?}");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn an_absent_server_is_reported_once_a_minute() {
        let (clock, (lines, said)) = (Clock::tokio(), Lines::collected());
        let notice = Notice::Events(lines.clone());
        let mut outage = notice.of_outage(&clock);
        for _ in 0..130 {
            outage.tell("it can't be reached");
            clock.sleep(Duration::from_secs(1)).await;
        }
        lines.finish();
        let said: Vec<String> = said.try_iter().collect();
        assert!(said.len() == 3 && said.iter().all(|line| line.contains("it can't be reached")), "{said:?}");
    }

    #[test]
    fn a_line_names_holder_and_time() {
        let mut holder = Entry::new(onelock::OwnerBytes::new([7; 16]));
        holder.label = Some(onelock::Label::new("deploy@web-3 pid 4711 sh"));
        holder.since = Some(Duration::from_secs(185));
        assert_eq!(Seen::Held(holder).text(), "held by deploy@web-3 pid 4711 sh for 3 min 5 s");
    }
}
