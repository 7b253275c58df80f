//! The requests of an owner that holds the lock: a longer lease, and the release.

use std::time::Duration;

use lock_core::driver::{LossReason, Release, Renewal};
use lock_core::toolkit::{Call, whole_millis};
use lock_core::{Effect, Error, Owner, Result};

use super::{RedisClaim, duration};
use crate::acks::Acknowledged;
use crate::errors;
use crate::feed::Topic;
use crate::layout::Listens;

impl RedisClaim {
    pub(crate) async fn renew_within(&mut self, call: &Call, ttl: Duration) -> Result<Renewal> {
        self.longest = self.longest.max(ttl);
        let keys = self.keys();
        match self.renew_by(call, ttl, keys.of_renewal()).await {
            // The lock is kept without what is beside it.
            Err(e) if errors::are_apart(&e) => self.renew_by(call, ttl, keys.alone()).await,
            renewal => renewal,
        }
    }

    async fn renew_by(&mut self, call: &Call, ttl: Duration, keys: Vec<Vec<u8>>) -> Result<Renewal> {
        let link = self.server.primary(call).await?;
        let renew = &self.server.layout.scripts().renew;
        let written = self.written();
        let mut command = renew.on(&keys);
        command.arg(&written.value).arg(whole_millis(ttl)).arg(whole_millis(self.longest));
        self.server.layout.add_to_renewal(&mut command, self.asker(&written, &link));
        let (answer, acknowledgement) = self.server.run_acknowledged_on(&link, call, renew, command).await?;
        match answer.fields[..] {
            [1, left] => match acknowledgement.kept().await {
                Acknowledged::Enough => Ok(Renewal::Held { valid_for: duration(left), age: Duration::ZERO }),
                // A replica that is promoted may have the earlier deadline.
                too_few => {
                    Err(Error::unavailable(Effect::Unknown, format!("the renewal does not count: {too_few}")))
                }
            },
            [0] => Ok(Renewal::Lost(LossReason::Gone)),
            [-1] => Ok(Renewal::Lost(LossReason::Revoked)),
            [-2] => Ok(Renewal::Lost(LossReason::Taken)),
            _ => Err(answer.unexpected()),
        }
    }

    pub(crate) async fn release_within(&mut self, call: &Call) -> Result<Release> {
        let latch = match self.latch.take() {
            // This release was sent before, and its answer is missing.
            Some(latch) => Some(latch.into_vec()),
            None => self.server.layout.latch(&self.keys().lock, &Owner::mint(&self.server.random)),
        };
        self.latch = latch.as_deref().map(Box::from);
        let mut all = self.keys().without_token();
        all.extend(latch);
        match self.release_by(call, all).await {
            // The lock is released without what is beside it. What else this owner has there waits for another try.
            Err(e) if errors::are_apart(&e) => match self.release_by(call, self.keys().alone()).await {
                Ok(Release::NotHeld) => Err(e),
                released => released,
            },
            released => released,
        }
    }

    async fn release_by(&mut self, call: &Call, keys: Vec<Vec<u8>>) -> Result<Release> {
        let releases = self.releases();
        let before = self.server.feed.is_confirmed(&releases);
        let link = self.server.primary(call).await?;
        let written = self.written();
        let release = &self.server.layout.scripts().release;
        let mut command = release.on(&keys);
        command.arg(&written.value).arg(written.keys.releases()).arg(link.facts.delivery.publish());
        self.server.layout.add_to_release(&mut command, self.asker(&written, &link));
        let answer = match self.is_asked {
            true => self.server.run_behind(&link, call, release, command).await?,
            false => self.server.run_on(&link, call, release, command).await?,
        };
        if let (Some(latch), [1, _]) = (self.latch.take(), &answer.fields[..]) {
            // The answer is here, and will not be asked for again.
            self.server.delete_in_background(latch.into_vec());
        }
        match answer.fields[..] {
            [1, others] => Ok(Release::Released { others: self.others(&releases, before, others) }),
            [0] => Ok(Release::NotHeld),
            _ => Err(answer.unexpected()),
        }
    }

    /// Returns whether other clients wait, from what a script has answered. Our own connection counts among those that
    /// listen only if it is subscribed both `before` and after.
    pub(super) fn others(&self, releases: &Topic, before: bool, answered: i64) -> Option<bool> {
        let after = self.server.feed.is_confirmed(releases);
        let listens = if before && after { Listens::Also } else { Listens::NotNow };
        self.server.layout.others(answered, listens)
    }
}
