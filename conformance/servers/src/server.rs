//! A running server, wherever it comes from.

use std::fmt;
use std::io;
use std::time::Duration;

use lock_conformance::{Missing, record};

use super::docker::Container;
use super::image;
use super::owned::Owned;
use super::product::Product;
use super::requirement::{Absence, NoServer, Requirement};
use super::settings::Settings;
use super::source::Source;
use super::waiting::{greeted, last_lines};

/// A server in a container has this long to make its data and to answer.
const LIMIT: Duration = Duration::from_secs(60);
/// The time between two questions to it.
const INTERVAL: Duration = Duration::from_millis(50);

/// A running server.
///
/// Its `Display` and its `Debug` say in one line what it is and where it comes from, never a password.
pub struct Server {
    url: String,
    version: String,
    source: Source,
    running: Running,
}

/// A server runs in one of these.
enum Running {
    /// It is a server of other people.
    Elsewhere,
    /// A process that was started here.
    Owned(Box<Owned>),
    /// A container that was started here, with a free port of 127.0.0.1. The server is treated like one of other people.
    ///
    /// A process that is killed leaves its containers behind. They have the label
    /// `org.testcontainers.managed-by=testcontainers`, by which `docker ps --filter label=…` finds them.
    ///
    /// If `DOCKER_HOST` is another machine, or if this process is in a container, the port is open to everything that
    /// reaches that machine.
    Contained(Box<Container>),
}

impl Server {
    /// Returns the server that the environment names, otherwise starts one with these settings.
    ///
    /// # Errors
    ///
    /// The reason, if there is none.
    pub fn find(product: &'static dyn Product, settings: &Settings) -> Result<Server, Absence> {
        match std::env::var(product.listing().variable).ok().filter(|value| !value.is_empty()) {
            Some(value) => Server::named(product, &value, settings),
            None => Server::start(product, settings),
        }
    }

    /// Returns the server that the environment variable names. It is required: if it is missing, that is a failure.
    fn named(product: &'static dyn Product, value: &str, settings: &Settings) -> Result<Server, Absence> {
        let variable = product.listing().variable;
        let wrong = |why| Absence::Failure(format!("{variable} names a container image, but {why}"));
        match image::named(value) {
            None => Server::given(product, value),
            Some(Err(why)) => Err(wrong(why)),
            Some(Ok(name)) => Server::contained(product, Some(name), settings)
                .map_err(|no_server| wrong(no_server.to_string())),
        }
    }

    /// Returns the server of that URL, which is the value of the product's environment variable. It must answer.
    fn given(product: &dyn Product, url: &str) -> Result<Server, Absence> {
        let variable = product.listing().variable;
        let silent = |why| Absence::Failure(format!("the server of {variable} does not answer: {why}"));
        let (version, source) = (product.greet(url).map_err(silent)?, Source::Url { variable });
        record::ran_on(&version, &source);
        Ok(Server { url: url.to_owned(), version, source, running: Running::Elsewhere })
    }

    /// Starts a server from a program, or from an image if there is no program.
    fn start(product: &'static dyn Product, settings: &Settings) -> Result<Server, Absence> {
        let required = Requirement::from_env()?;
        let started = match Owned::from_program(product, settings) {
            Ok(owned) => Ok(Server {
                url: owned.url().to_owned(),
                version: owned.version().to_owned(),
                source: owned.program().source(),
                running: Running::Owned(Box::new(owned)),
            }),
            Err(NoServer::Absent(no_program)) => {
                Server::contained(product, None, settings).map_err(|no_server| match no_server {
                    NoServer::Absent(no_container) => {
                        NoServer::Absent(format!("{no_program}, and no container: {no_container}"))
                    }
                    failure => failure,
                })
            }
            Err(failure) => Err(failure),
        };
        started.map_err(|no_server| required.judge(product.listing(), no_server))
    }

    /// Starts a server from the image `name`, which must be like the product's own; without a name, from that one.
    fn contained(product: &dyn Product, name: Option<&str>, settings: &Settings) -> Result<Server, NoServer> {
        image::can_be(settings).map_err(NoServer::Absent)?;
        let none = || NoServer::Absent(format!("the suite knows no image of {}", product.listing().name));
        let image = product.image(settings).ok_or_else(none)?;
        let name = name.unwrap_or(image.name);
        let container = Container::start(&image, name)?;
        let url = (image.url)(container.address());
        let ended = || match container.is_running().map_err(io::Error::other)? {
            true => Ok(None),
            false => Ok(Some("it ended".to_owned())),
        };
        let version = greeted((product, &url), (LIMIT, INTERVAL), ended, || container.log())
            .map_err(|why| NoServer::Failed(format!("a container of {name} did not start: {why}")))?;
        let source = Source::Container { image: name.to_owned() };
        record::ran_on(&version, &source);
        Ok(Server { url, version, source, running: Running::Contained(Box::new(container)) })
    }

    /// Returns the URL at which clients connect. It may contain a password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the server if it was started here from a program, so that cases may kill and stop it.
    pub fn owned(&self) -> Option<&Owned> {
        match &self.running {
            Running::Elsewhere | Running::Contained(_) => None,
            Running::Owned(owned) => Some(owned),
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
        match &self.running {
            Running::Elsewhere => None,
            Running::Owned(owned) => owned.ended(),
            // A daemon that does not answer says nothing about the container.
            Running::Contained(container) => (container.is_running() == Ok(false))
                .then(|| format!("its container's log ends with: {}", last_lines(&container.log()))),
        }
    }

    /// Returns where it comes from.
    pub fn source(&self) -> &Source {
        &self.source
    }
}

impl fmt::Display for Server {
    /// `redis 7.0.15, started from /usr/bin/redis-server`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.version, self.source)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}
