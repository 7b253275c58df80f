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
    /// Returns when a signal has come, or with the failure.
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        let mut signals = Signals::listen()?;
        tokio::select! {
            biased;
            signal = signals.next() => Ok(Exit::Signal(signal.number())),
            failure = self.show() => Err(failure),
        }
    }

    /// Shows all changes. Returns only a failure.
    async fn show(&self) -> Failure {
        let opened = self.server.open(Options::default()).await;
        let lock = opened.and_then(|client| Ok(client.lock(self.name.as_str()).build()?));
        match lock {
            Ok(lock) => self.show_changes(&lock).await,
            Err(failure) => failure,
        }
    }

    async fn show_changes(&self, lock: &Lock) -> Failure {
        let (clock, mut shown, mut trouble) = (Clock::system(), None, None);
        loop {
            match lock.inspect().await {
                Ok(inspection) => {
                    trouble = None;
                    let seen = Holder::of(&inspection);
                    if shown.as_ref() != Some(&seen)
                        && let Err(failure) = self.tell(&inspection).await
                    {
                        return failure;
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
                Err(e) => return e.into(),
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

/// Which grant of the lock a look has shown; `None` if it was free. A break gives the lock another owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holder(Option<(OwnerBytes, Option<FencingToken>)>);

impl Holder {
    fn of(inspection: &Inspection) -> Holder {
        Holder(inspection.holder.as_ref().map(|holder| (holder.owner.clone(), holder.token)))
    }
}
