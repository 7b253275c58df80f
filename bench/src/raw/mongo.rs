//! The driver of MongoDB.

use mongodb::Client;
use mongodb::options::ClientOptions;

use crate::Outcome;

/// Returns the driver's options from the URL, which must not have parameters of our backend.
pub(crate) async fn options(url: &str) -> Outcome<ClientOptions> {
    Ok(ClientOptions::parse(url).await?)
}

pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    Ok(Client::with_options(options(url).await?)?)
}
