//! State that the acquisitions of one client share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Clock;
use crate::driver::{Driver, Info};
use crate::error::{Error, Result};
use crate::events::Events;
use crate::human_duration::HumanDuration;
use crate::local_queue::LocalQueues;
use crate::name::Name;
use crate::owner::Label;
use crate::process::Process;
use crate::random::Random;
use crate::runtime::SuspendWatch;

/// State that the acquisitions of one client share. It doesn't hold the client's runtime, because that waits
/// for them.
pub(crate) struct Shared {
    pub(crate) driver: Arc<dyn Driver>,
    /// The driver's facts for a fork, which must not call the driver.
    pub(crate) info_when_opened: Arc<Info>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) local_queues: Arc<LocalQueues>,
    pub(crate) events: Arc<Events>,
    pub(crate) label: Label,
    pub(crate) process: Process,
    /// The time that one request may take, if the client's user has set it.
    pub(crate) patience: Option<Duration>,
    /// The client shuts down.
    pub(crate) closing: watch::Sender<bool>,
    pub(crate) suspend_watch: SuspendWatch,
}

impl Shared {
    /// Returns what the backend guarantees and can do.
    pub(crate) fn info(&self) -> Arc<Info> {
        match self.process.is_another() {
            true => self.info_when_opened.clone(),
            false => self.driver.info(),
        }
    }

    /// Returns how long one request may take: a third of the ttl, within 100 ms and 5 s, so that a renewal has several
    /// tries.
    pub(crate) fn patience_for(&self, ttl: Duration) -> Duration {
        self.patience.unwrap_or_else(|| (ttl / 3).clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE))
    }

    /// Returns `ttl` if the backend allows it.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<Duration> {
        let info = self.info();
        let (min, max) = (info.min_ttl, info.max_ttl);
        if ttl < min || ttl > max {
            return Err(Error::invalid(format!(
                "the ttl of {} is outside of what this backend allows: {} to {}",
                HumanDuration(ttl),
                HumanDuration(min),
                HumanDuration(max)
            )));
        }
        self.suspend_watch.notice_within(ttl);
        Ok(ttl)
    }

    /// Returns the ttl nearest to `ttl` that the backend allows.
    pub(crate) fn nearest_ttl(&self, ttl: Duration) -> Duration {
        let info = self.info();
        let ttl = ttl.clamp(info.min_ttl, info.max_ttl);
        self.suspend_watch.notice_within(ttl);
        ttl
    }

    /// Turns away new callers and waiting ones.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves when the client shuts down. Cancel safe.
    pub(crate) async fn closing(&self) {
        // The sender is in this struct: it is not dropped before.
        let _: Result<_, _> = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Adds to an error where it happened.
    pub(crate) fn at(&self, operation: &'static str, name: Option<&Name>, error: Error) -> Error {
        let info = self.info();
        error.at(info.backend, &info.server, operation, name)
    }
}

const SHORTEST_PATIENCE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PATIENCE: Duration = Duration::from_secs(5);
