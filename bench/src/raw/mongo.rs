//! The driver of MongoDB.

use lock_core::Location;
use mongodb::Client;

use crate::Outcome;

/// What stands before the URL's `?`, and the one parameter behind it that a single node of a set needs.
pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    let mut location = Location::parse(url)?;
    let direct = location.take("directConnection").map(|direct| format!("?directConnection={direct}"));
    Ok(Client::with_uri_str(format!("{}{}", location.base(), direct.unwrap_or_default())).await?)
}
