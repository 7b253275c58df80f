//! `lock acquire --lease`: takes the lock for a time, and leaves it to its lease. No process holds it.

use std::time::Duration;

use onelock::{Client, DEFAULT_TTL, Lease, Lock, Options, OwnerBytes, Revoked, When};

use super::answer::Answer;
use super::handle::Handle;
use crate::acquisition::held::{self, LockIdentity};
use crate::acquisition::{Acquisition, LAST_REQUESTS, Notice, server};
use crate::args::{Acquire, Release};
use crate::exit::{Exit, Failure};
use crate::os::Signals;

impl Acquire {
    /// Returns when the lock is left to its lease and the answer is printed, or with the failure.
    pub(super) async fn leave_to(&self, lease: Duration) -> Result<Exit, Failure> {
        let terms = &self.terms;
        // Before signals are caught: to read the URL from a pipe may take its time.
        let url = terms.ask.server.url()?;
        let mut signals = Signals::listen()?;
        let acquisition = terms.begin(Notice::of(terms.voice()))?;
        let client = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            client = acquisition.connect(&url, terms.options("acquire")) => client?,
        };
        let outcome = self.leave_on(&client, &url, lease, &acquisition, &mut signals).await;
        client.shutdown(LAST_REQUESTS).await;
        outcome
    }

    async fn leave_on(
        &self,
        client: &Client,
        url: &str,
        lease: Duration,
        acquisition: &Acquisition<'_>,
        signals: &mut Signals,
    ) -> Result<Exit, Failure> {
        let lock = self.lock_for(client, lease, acquisition.left())?;
        let identity = LockIdentity::of(client, url, &self.terms.name)?;
        held::refuse_nested(&identity, client).await?;
        let server = server(client);
        let guard = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal.number())),
            guard = acquisition.acquire(&lock, &server) => guard?,
        };
        // Only now for so long: a call that is killed before leaves the lock for a usual ttl at most.
        let valid_for = guard.renew(lease).await?;
        let (token, held) = (guard.token(), held::lines(&identity, client, guard.token()));
        let holder = guard.leave().await?;
        let answer = Answer::new(token, valid_for, &Handle::Lease(holder.clone()), held);
        if let Err(failure) = self.tell(&answer).await {
            // Without the handle, the job could never release it.
            lock.revoke(&holder, When::Now).await?;
            return Err(failure);
        }
        Ok(Exit::Status(0))
    }

    fn lock_for(&self, client: &Client, lease: Duration, wait: Option<Duration>) -> Result<Lock, Failure> {
        if client.info().lease == Lease::Session {
            let what = format!(
                "{} can't keep a lock for --lease: a lock there ends with the connection of the process that has it; \
                 leave --lease out, and a keeper holds it",
                client.info().backend
            );
            return Err(Failure::new(Exit::Usage, what));
        }
        let (ask, name) = (&self.terms.ask, &self.terms.name);
        let whole = ask.lock(client, name, wait).ttl(lease).build()?;
        if lease < DEFAULT_TTL { Ok(whole) } else { Ok(ask.lock(client, name, wait).build()?) }
    }
}

impl Release {
    /// Ends a lease, and says whether it was held until now.
    pub(super) async fn end_lease(&self, holder: &OwnerBytes) -> Result<Exit, Failure> {
        let client = self.server.open(Options::default()).await?;
        let lock = client.lock(self.name.as_str()).build()?;
        let revoked = lock.revoke(holder, When::Now).await;
        client.shutdown(LAST_REQUESTS).await;
        match revoked? {
            Revoked::Free | Revoked::FreeIn(_) => Ok(Exit::Status(0)),
            Revoked::NotHeld => {
                let what = format!(
                    "{:?} is not held by this handle any more: its lease has ended, or it was broken or released before; \
                     or it is a lock of another server",
                    self.name
                );
                Err(Failure::new(Exit::Lost, what))
            }
        }
    }
}
