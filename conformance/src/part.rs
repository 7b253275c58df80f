//! What another process does for a case: this very test program, started once more, with the library and not with the
//! program `lock`. It says line by line what it sees.

#[cfg(unix)]
mod forked;
#[cfg(unix)]
mod stopped;

use std::env;
use std::io;
use std::process::Command;
use std::time::Duration;

use lock_core::FencingToken;

use crate::harness::Harness;
use crate::runner::Verdict;
use crate::servers::{Holder, Process, catalogue};
use crate::timing::Returned;

/// The part, the lock's name, and its ttl in milliseconds.
const ORDER: &str = "LOCK_TEST_PART";
/// What a process says first: it holds the lock, with this token.
const HOLDS: &str = "holds with token ";
/// How long it may take to say something.
const LIMIT: Duration = Duration::from_secs(20);

/// A part that a process plays with a lock.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) part: Part,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
}

/// What the process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Holds and works until the lock is lost, and then does everything that comes too late.
    Late,
    /// Waits for the lock that somebody else holds, and says so; holds it then, for ever.
    Waits,
    /// Forks while it holds, with a runtime whose threads the child has not.
    Forks,
    /// Forks while it holds, inside of a runtime that the child goes on with.
    ForksInside,
}

impl Part {
    const ALL: [(&'static str, Part); 4] = [
        ("late", Part::Late),
        ("waits", Part::Waits),
        ("forks", Part::Forks),
        ("forks-inside", Part::ForksInside),
    ];

    fn as_str(self) -> &'static str {
        Part::ALL.into_iter().find(|(_, part)| *part == self).map_or("", |(name, _)| name)
    }
}

impl Order {
    /// Starts the process, on the server of this harness.
    pub(crate) fn start(&self, harness: &dyn Harness) -> io::Result<Player> {
        let mut process = Command::new(env::current_exe()?);
        // What it runs on has been noted.
        process.envs(harness.environment()).env_remove(catalogue::RECORD);
        process.env(ORDER, format!("{} {} {}", self.part.as_str(), self.ttl.as_millis(), self.name));
        Ok(Player(Some(Holder::spawn(process)?)))
    }

    /// What this process was started for, if it is one of these.
    pub(crate) fn from_env() -> Option<Order> {
        let order = env::var(ORDER).ok()?;
        let mut words = order.splitn(3, ' ');
        let (part, ttl, name) = (words.next()?, words.next()?, words.next()?);
        let (_, part) = Part::ALL.into_iter().find(|(name, _)| *name == part)?;
        Some(Order { part, name: name.to_owned(), ttl: Duration::from_millis(ttl.parse().ok()?) })
    }

    /// Plays it.
    #[cfg(unix)]
    pub(crate) fn play(&self, harness: &impl Harness) -> Verdict {
        match self.part {
            Part::Late => crate::runner::block_on(stopped::late(self, harness)),
            Part::Waits => crate::runner::block_on(stopped::waits(self, harness)),
            Part::Forks => forked::forks(self, harness),
            Part::ForksInside => forked::forks_inside(self, harness),
        }
        Verdict::Passed
    }

    #[cfg(not(unix))]
    pub(crate) fn play(&self, _: &impl Harness) -> Verdict {
        Verdict::Failed
    }
}

/// The process. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Player(Option<Holder>);

impl Player {
    /// To be stopped, resumed and killed.
    pub(crate) fn process(&self) -> &Process {
        self.0.as_ref().expect(HERE).process()
    }

    /// The token of the lock that it holds now.
    pub(crate) async fn holds(&mut self) -> FencingToken {
        let line = self.says().await;
        let token = line.strip_prefix(HOLDS).and_then(|token| FencingToken::new(token.parse().ok()?));
        token.unwrap_or_else(|| panic!("it does not hold: {line}"))
    }

    /// What it says next.
    pub(crate) async fn says(&mut self) -> String {
        let holder = self.0.take().expect(HERE);
        let said = tokio::task::spawn_blocking(move || (holder.line(LIMIT), holder)).await;
        let (line, holder) = said.returned();
        match line {
            Ok(line) => {
                self.0 = Some(holder);
                line
            }
            Err(e) => panic!("{e}; {:?}", holder.finish(Duration::from_secs(1))),
        }
    }
}

/// Taken only while its words are waited for.
const HERE: &str = "it is asked one thing at a time";
