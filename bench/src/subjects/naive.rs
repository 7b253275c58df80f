//! A scheme as texts describe it: the library's client with the driver of that scheme. So what the client costs is the
//! same for all schemes, and for the library's own drivers.

use lock_core::Options;
use lock_naive::Scheme;

use super::ours::Ours;
use crate::Outcome;

pub(super) async fn connect(scheme: Scheme, url: &str) -> Outcome<Ours> {
    Ok(Ours::with(scheme.connect(url, Options::default()).await?))
}
