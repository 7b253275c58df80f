//! Another process that does something for a case. It is this same test program, started once more; it uses the library
//! and not the program `lock`. It prints a line for each thing that it sees.

#[cfg(unix)]
mod forked;
#[cfg(unix)]
mod stopped;

use std::env;
use std::time::Duration;

use lock_core::FencingToken;

use crate::harness::{ChildProcess, Harness, Processes};
use crate::timing::Returned;
use crate::verdict::Verdict;

/// The environment variable with the part, the lock's ttl in milliseconds, and its name.
const ORDER: &str = "LOCK_TEST_PART";
/// The first line of a process: it holds the lock, with this token.
const HOLDS: &str = "holds with token ";
/// The longest time that a process may take for its next line.
const LIMIT: Duration = Duration::from_secs(20);

/// A part that a process plays with a lock.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) part: Part,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
}

/// The task of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Holds and works until the lock is lost, and then calls everything that comes too late.
    Late,
    /// Waits for a lock that another client holds, and says so. Then holds it until it is killed.
    Waits,
    /// Forks while it holds, with a runtime whose threads the child does not have.
    Forks,
    /// Forks while it holds, inside a runtime that the child continues with.
    ForksInside,
    /// Forks again and again while other threads use the same client.
    ForksBusy,
}

impl Part {
    const ALL: [Part; 5] = [Part::Late, Part::Waits, Part::Forks, Part::ForksInside, Part::ForksBusy];

    /// Returns the number of the last child of a process that forks. Child 0 only drops what it has; the others, in turn,
    /// make every call before.
    #[cfg(unix)]
    pub(crate) fn last_child(self) -> usize {
        match self {
            Part::Forks => 2,
            Part::ForksBusy => 40,
            _ => 0,
        }
    }
}

impl Order {
    /// Starts the process, on the server of this harness.
    pub(crate) fn start(&self, processes: &dyn Processes) -> PartProcess {
        let order = format!("{:?} {} {}", self.part, self.ttl.as_millis(), self.name);
        PartProcess(Some(processes.start((ORDER, order)).expect("this program starts once more")))
    }

    /// Returns what this process was started for, if it was started with an order.
    pub(crate) fn from_env() -> Option<Order> {
        let order = env::var(ORDER).ok()?;
        let mut words = order.splitn(3, ' ');
        let (part, ttl, name) = (words.next()?, words.next()?, words.next()?);
        let part = Part::ALL.into_iter().find(|known| format!("{known:?}") == part)?;
        Some(Order { part, name: name.to_owned(), ttl: Duration::from_millis(ttl.parse().ok()?) })
    }

    /// Plays the part.
    #[cfg(unix)]
    pub(crate) fn play(&self, harness: &impl Harness) -> Verdict {
        match self.part {
            Part::Late => crate::runtime::block_on(stopped::late(self, harness)),
            Part::Waits => crate::runtime::block_on(stopped::waits(self, harness)),
            Part::Forks | Part::ForksBusy => forked::forks(self, harness),
            Part::ForksInside => forked::forks_inside(self, harness),
        }
        Verdict::Passed
    }

    #[cfg(not(unix))]
    pub(crate) fn play(&self, _: &impl Harness) -> Verdict {
        Verdict::Failed
    }
}

/// The process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct PartProcess(Option<Box<dyn ChildProcess>>);

impl PartProcess {
    /// Returns the process, which a case stops, resumes and kills.
    pub(crate) fn process(&self) -> &dyn ChildProcess {
        self.0.as_deref().expect(HERE)
    }

    /// Waits for a line that says that the process holds the lock, and returns the token.
    pub(crate) async fn holds(&mut self) -> FencingToken {
        let line = self.says().await;
        let token = line.strip_prefix(HOLDS).and_then(|token| FencingToken::new(token.parse().ok()?));
        token.unwrap_or_else(|| panic!("it does not hold: {line}"))
    }

    /// Waits for the next line of the process.
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

/// The holder is taken out only while its next line is waited for.
const HERE: &str = "it is asked one thing at a time";
