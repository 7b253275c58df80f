//! A server that is ready to be measured.

use std::sync::Arc;

use lock_core::{Owner, Random};
use onelock::Info;

use crate::Outcome;
use crate::backend::Backend;

/// The server at one URL, as one run of measurements sees it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) backend: Backend,
    /// What the library says of the server.
    pub(crate) info: Arc<Info>,
    /// Part of every name: no run meets the locks of another.
    run: String,
}

impl Site {
    /// Connects once, to learn what the server is.
    pub(crate) async fn of(url: &str) -> Outcome<Site> {
        let info = onelock::connect(url).await?.info();
        let run = Owner::mint(&Random::system()).to_string()[..12].to_owned();
        Ok(Site { url: url.to_owned(), backend: Backend::of(url)?, info, run })
    }

    /// Returns the `n`th name of a subject in a workload.
    pub(crate) fn name(&self, workload: &str, subject: &str, n: usize) -> String {
        format!("lock-bench:{}:{workload}:{subject}:{n}", self.run)
    }
}
