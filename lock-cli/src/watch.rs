//! `lock watch`: who holds a lock, and each change of that.

use std::time::Duration;

use onelock::{Clock, FencingToken, Inspection, Lock, Options, OwnerBytes};

use crate::args::Watch;
use crate::exit::{Exit, Failure};
use crate::look::status_json;
use crate::os::Signals;
use crate::print;

/// The pause between two looks.
const EACH: Duration = Duration::from_secs(1);

impl Watch {
    /// Returns when a signal has come or the reader has gone, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        // Before signals are caught: to read the URL from a pipe may take its time.
        let url = self.server.url()?;
        let mut signals = Signals::listen()?;
        tokio::select! {
            biased;
            signal = signals.next() => Ok(Exit::Signal(signal.number())),
            outcome = self.show(&url) => outcome,
        }
    }

    /// Shows all changes.
    async fn show(&self, url: &str) -> Result<Exit, Failure> {
        let client = onelock::connect_with(url, Options::default()).await?;
        self.show_changes(&client.lock(self.name.as_str()).build()?).await
    }

    async fn show_changes(&self, lock: &Lock) -> Result<Exit, Failure> {
        let (clock, mut shown, mut trouble) = (Clock::system(), None, None);
        loop {
            match lock.inspect().await {
                Ok(inspection) => {
                    trouble = None;
                    let seen = Holder::of(&inspection);
                    if shown.as_ref() != Some(&seen) {
                        self.tell(&inspection).await?;
                    }
                    shown = Some(seen);
                }
                // Said once, and not at every look.
                Err(e) if e.is_transient() && shown.is_some() => {
                    if trouble.is_none() {
                        print::note(&e);
                    }
                    trouble = Some(());
                }
                Err(e) => return Err(e.into()),
            }
            // As in `lock watch NAME | grep -m1 free`: a next change, at which a write would fail, may never come.
            if print::reader_has_gone() {
                return Ok(Exit::Status(0));
            }
            clock.sleep(EACH).await;
        }
    }

    /// Tells a change. While its reader doesn't read, it looks no more: the reader then gets the latest change.
    async fn tell(&self, inspection: &Inspection) -> Result<(), Failure> {
        let name = self.name.as_str();
        print::change(match (&inspection.holder, self.json) {
            (_, true) => status_json(name, inspection).to_string(),
            (Some(holder), false) => {
                let token = holder.token.map_or(String::new(), |token| format!(", token {token}"));
                format!("{name:?} is {holder}{token}")
            }
            (None, false) => format!("{name:?} is free"),
        })
        .await
    }
}

/// The grant of the lock that a look has shown; `None` if it was free. A break gives the lock another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder(Option<(OwnerBytes, Option<FencingToken>)>);

impl Holder {
    fn of(inspection: &Inspection) -> Holder {
        Holder(inspection.holder.as_ref().map(|holder| (holder.owner.clone(), holder.token)))
    }
}
