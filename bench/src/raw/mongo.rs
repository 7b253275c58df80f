//! The driver of MongoDB.

use mongodb::Client;
use mongodb::options::ClientOptions;

use crate::Outcome;

/// What the URL says to the driver; it takes no parameters of our backend's.
pub(crate) async fn options(url: &str) -> Outcome<ClientOptions> {
    Ok(ClientOptions::parse(url).await?)
}

pub(crate) async fn connect(url: &str) -> Outcome<Client> {
    Ok(Client::with_options(options(url).await?)?)
}
