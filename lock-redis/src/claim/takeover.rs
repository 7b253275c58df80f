//! A takeover: one owner takes the place of another one of its client, in one script.

use lock_core::driver::{Predecessor, Takeover};
use lock_core::toolkit::Call;
use lock_core::{Error, Result};

use super::{RedisClaim, grant_of, too_late};

impl RedisClaim {
    pub(crate) async fn succeed_within(
        &mut self,
        call: &Call,
        predecessor: &Predecessor,
    ) -> Result<Takeover> {
        let outcome = self.take_over(call, predecessor).await;
        self.maybe_held |= outcome.as_ref().is_err_and(Error::may_have_taken_effect);
        outcome
    }

    /// Asks for the lock in the place of `predecessor`.
    async fn take_over(&mut self, call: &Call, predecessor: &Predecessor) -> Result<Takeover> {
        let Some(take_over) = &self.server.layout.scripts().take_over else {
            return Err(Error::unsupported("in this layout, a release and an attempt are two requests"));
        };
        let (releases, written) = (self.releases(), self.written());
        let before = self.server.feed.is_confirmed(&releases);
        for _ in 0..2 {
            let link = self.server.primary(call).await?;
            let mut command = self.asks(take_over, &written, &link, call);
            command.arg(self.server.layout.held(&predecessor.owner, &predecessor.label));
            command.arg(written.keys.releases()).arg(link.facts.delivery.count());
            self.is_asked = true;
            let answer = self.server.run_on(&link, call, take_over, command).await?;
            self.is_asked = false;
            match answer.fields[..] {
                [1, token, left, listeners] => {
                    let others = self.others(&releases, before, listeners);
                    self.has_waited = true;
                    let grant = grant_of(token, left).ok_or_else(|| answer.unexpected())?;
                    return Ok(Takeover::Granted { grant, others });
                }
                [0] => return Ok(Takeover::NotHeld),
                [-1] if !call.left().is_zero() => {}
                [-1] => break,
                _ => return Err(answer.unexpected()),
            }
        }
        Err(too_late())
    }
}
