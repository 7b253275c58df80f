//! What a process of the raw driver is told before it sends what the library sends for one name.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{redis, redlock};
use crate::Outcome;
use crate::backend::Backend;
use crate::raw::redis::{Recording, ServerClock};
use crate::subjects::Kind;

/// What a process is told. It is made once, and used for many processes.
pub(crate) enum Preparation {
    /// The process makes all requests by itself.
    Nothing,
    Recorded(Recorded),
}

/// What was recorded of the library on Redis.
pub(crate) struct Recorded {
    pub(super) recording: Recording,
    pub(super) clock: ServerClock,
}

/// The same, as a process is told it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) recording: Recording,
    /// The server's time.
    pub(super) now: Duration,
}

/// Uses a name once, so that the server has what it keeps of names, and records it where that is needed.
pub(crate) async fn prepare(url: &str, name: &str) -> Outcome<Preparation> {
    Ok(match Backend::of(url)? {
        Backend::Redis => Preparation::Recorded(redis::prepare(url, name).await?),
        Backend::Redlock => Preparation::Recorded(redlock::prepare(url, name).await?),
        _ => {
            Kind::Ours.connect(url).await?.use_once(name).await?;
            Preparation::Nothing
        }
    })
}

impl Preparation {
    /// Returns the text for a process that begins now.
    pub(crate) fn text(&self) -> Outcome<String> {
        match self {
            Preparation::Nothing => Ok(String::new()),
            Preparation::Recorded(Recorded { recording, clock }) => {
                Ok(serde_json::to_string(&Told { recording: recording.clone(), now: clock.now() })?)
            }
        }
    }
}

impl Told {
    pub(super) fn parse(text: &str) -> Outcome<Told> {
        Ok(serde_json::from_str(text)?)
    }
}
