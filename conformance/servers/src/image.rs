//! Container images from which servers can be started.

use super::settings::{Clock, Settings};

/// The prefix of a value of `LOCK_TEST_REDIS`, … that names an image and not a URL.
const SCHEME: &str = "docker:";

/// A product's container image, and how a server is started from it.
#[derive(Clone, Debug)]
pub struct Image {
    /// The official name, with a tag: `redis:7.4`.
    pub name: &'static str,
    /// The port on which the server listens in its container.
    pub port: u16,
    /// Environment variables of the image: they say which user and which database it makes.
    pub environment: &'static [(&'static str, &'static str)],
    /// Arguments of the server.
    pub arguments: Vec<String>,
    /// Returns the URL for clients, for the address of the port outside of the container, as `host:port`.
    pub url: fn(&str) -> String,
}

/// Returns the image that the value of such a variable names: `redis:7.4` in `docker:redis:7.4`.
///
/// Returns `None` if the value is a URL or empty. The error says what to write instead.
pub(super) fn named(value: &str) -> Option<Result<&str, String>> {
    let name = value.strip_prefix(SCHEME)?;
    let is_image =
        |name: &str| !name.is_empty() && !name.contains("//") && !name.contains(char::is_whitespace);
    Some(match is_image(name) {
        true => Ok(name),
        false => Err(format!("{name:?} is not the name of an image; an example is {SCHEME}redis:7.4")),
    })
}

/// Checks whether a server with these settings can run in a container; if not, the error says why.
pub(super) fn can_be(settings: &Settings) -> Result<(), String> {
    match settings {
        Settings { clock: Clock::Own, .. } => {
            Err("a server in a container has no clock of its own".to_owned())
        }
        Settings { files, .. } if !files.is_empty() => {
            Err("a server in a container cannot get files from the suite".to_owned())
        }
        _ => Ok(()),
    }
}
