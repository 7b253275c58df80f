//! A running server, wherever it comes from.

use std::fmt;

use lock_conformance::{Missing, record};

use super::contained::Contained;
use super::image;
use super::owned::Owned;
use super::product::Product;
use super::requirement::{Absence, NoServer, Requirement};
use super::settings::Settings;
use super::source::Source;

/// A running server.
///
/// Its `Display` says in one line what it is and where it comes from, never a password.
#[derive(Debug)]
pub enum Server {
    /// A server of other people, from a URL in the environment.
    Given(Given),
    /// Started here.
    Owned(Box<Owned>),
    /// Started here in a container. It is treated like a server of other people.
    Contained(Box<Contained>),
}

impl Server {
    /// Returns the server that the environment names, otherwise starts one with default settings.
    ///
    /// # Errors
    ///
    /// The reason, if there is none.
    pub fn find(product: &'static dyn Product) -> Result<Server, Absence> {
        Server::find_or_start(product, &Settings::default())
    }

    /// Returns the server that the environment names, otherwise starts one with these settings.
    ///
    /// # Errors
    ///
    /// The reason, if there is none.
    pub fn find_or_start(product: &'static dyn Product, settings: &Settings) -> Result<Server, Absence> {
        match value(product) {
            Some(value) => Server::named(product, &value, settings),
            None => Server::start(product, settings),
        }
    }

    /// Returns the server that the environment variable names. It is required: if it is missing, that is a failure.
    fn named(product: &'static dyn Product, value: &str, settings: &Settings) -> Result<Server, Absence> {
        let variable = product.listing().variable;
        let wrong = |why| Absence::Failure(format!("{variable} names a container image, but {why}"));
        match image::named(value) {
            None => Given::new(product, value).map(Server::Given),
            Some(Err(why)) => Err(wrong(why)),
            Some(Ok(name)) => {
                let contained = Contained::of_image(product, name, settings);
                contained
                    .map(|it| Server::Contained(Box::new(it)))
                    .map_err(|no_server| wrong(no_server.to_string()))
            }
        }
    }

    /// Starts a server from a program, or from an image if there is no program.
    fn start(product: &'static dyn Product, settings: &Settings) -> Result<Server, Absence> {
        let required = Requirement::from_env()?;
        let no_server = match Owned::from_program(product, settings) {
            Ok(owned) => return Ok(Server::Owned(Box::new(owned))),
            Err(NoServer::Absent(no_program)) => match Contained::start(product, settings) {
                Ok(contained) => return Ok(Server::Contained(Box::new(contained))),
                Err(NoServer::Absent(no_container)) => {
                    NoServer::Absent(format!("{no_program}, and no container: {no_container}"))
                }
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        Err(required.judge(product.listing(), no_server))
    }

    /// Returns the URL at which clients connect. It may contain a password.
    pub fn url(&self) -> &str {
        match self {
            Server::Given(given) => &given.url,
            Server::Owned(owned) => owned.url(),
            Server::Contained(contained) => contained.url(),
        }
    }

    /// Returns the server if it was started here from a program, so that cases may kill and stop it.
    pub fn owned(&self) -> Option<&Owned> {
        match self {
            Server::Given(_) | Server::Contained(_) => None,
            Server::Owned(owned) => Some(owned),
        }
    }

    /// Checks that it was started here from a program: then no other program uses it.
    ///
    /// # Errors
    ///
    /// The reason for *not run*, if it was not.
    pub fn started_here(&self) -> Result<(), Missing> {
        let shared = "the server was not started here: other programs may use it too";
        self.owned().map(drop).ok_or_else(|| Missing::because(shared))
    }

    /// Returns how it has ended, if it was started here and has ended by itself.
    pub fn ended(&self) -> Option<String> {
        match self {
            Server::Given(_) => None,
            Server::Owned(owned) => owned.ended(),
            Server::Contained(contained) => contained.ended(),
        }
    }

    /// Returns the product's name and version, as the server tells them.
    pub fn version(&self) -> &str {
        match self {
            Server::Given(given) => &given.version,
            Server::Owned(owned) => owned.version(),
            Server::Contained(contained) => contained.version(),
        }
    }

    /// Returns where it comes from.
    pub fn source(&self) -> Source {
        match self {
            Server::Given(given) => given.source.clone(),
            Server::Owned(owned) => owned.program().source(),
            Server::Contained(contained) => contained.source(),
        }
    }
}

impl fmt::Display for Server {
    /// `redis 7.0.15, started from /usr/bin/redis-server`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.version(), self.source())
    }
}

/// Returns the value of the product's environment variable, if it has one.
fn value(product: &dyn Product) -> Option<String> {
    std::env::var(product.listing().variable).ok().filter(|value| !value.is_empty())
}

/// A server of other people.
pub struct Given {
    url: String,
    version: String,
    source: Source,
}

impl Given {
    /// Returns the server of that URL, which is the value of the product's environment variable. It must answer.
    fn new(product: &dyn Product, url: &str) -> Result<Given, Absence> {
        let variable = product.listing().variable;
        match product.greet(url) {
            Ok(version) => {
                let source = Source::Url { variable };
                record::ran_on(&version, &source);
                Ok(Given { url: url.to_owned(), version, source })
            }
            Err(why) => Err(Absence::Failure(format!("the server of {variable} does not answer: {why}"))),
        }
    }
}

impl fmt::Debug for Given {
    /// Leaves out the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given")
            .field("version", &self.version)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
