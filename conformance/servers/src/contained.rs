//! A server in a container. It was started here, but cases must not stop it.

use std::thread;
use std::time::{Duration, Instant};

use lock_conformance::record;

use super::docker::Container;
use super::image::{Image, can_be};
use super::printed::last_lines;
use super::product::Product;
use super::requirement::NoServer;
use super::settings::Settings;
use super::source::Source;

/// The longest time that a server may take to make its data and to answer.
const LIMIT: Duration = Duration::from_secs(60);
/// The time between two questions to it.
const INTERVAL: Duration = Duration::from_millis(50);

/// A server in a container, on a free port of 127.0.0.1. Dropping it removes the container, with its data.
///
/// Nothing else removes it: a process that is killed leaves its containers behind. They have the label
/// `org.testcontainers.managed-by=testcontainers`, by which `docker ps --filter label=…` finds them.
///
/// If `DOCKER_HOST` is another machine, or if this process is in a container, the port is open to everything that
/// reaches that machine.
#[derive(Debug)]
pub struct Contained {
    url: String,
    version: String,
    source: Source,
    // Dropping it removes it.
    container: Container,
}

impl Contained {
    /// Starts a server from the product's own image.
    pub(super) fn start(product: &dyn Product, settings: &Settings) -> Result<Contained, NoServer> {
        let image = image(product, settings)?;
        Contained::run(product, &image, image.name)
    }

    /// Starts a server from the image `name`, which must be like the product's own.
    pub(super) fn of_image(
        product: &dyn Product,
        name: &str,
        settings: &Settings,
    ) -> Result<Contained, NoServer> {
        Contained::run(product, &image(product, settings)?, name)
    }

    fn run(product: &dyn Product, image: &Image, name: &str) -> Result<Contained, NoServer> {
        let container = Container::start(image, name)?;
        let url = (image.url)(container.address());
        let version = answer(product, &url, &container)
            .map_err(|why| NoServer::Failed(format!("a container of {name} did not start: {why}")))?;
        let source = Source::Container { image: name.to_owned() };
        record::ran_on(&version, &source);
        Ok(Contained { url, version, source, container })
    }

    /// Returns the URL at which clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the product's name and version, as the server tells them.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns how it has ended, if it has.
    pub(super) fn ended(&self) -> Option<String> {
        let log = || last_lines(&self.container.log());
        // A daemon that does not answer says nothing about the container.
        (self.container.is_running() == Ok(false))
            .then(|| format!("its container's log ends with: {}", log()))
    }

    /// Returns the image that it was started from.
    pub(super) fn source(&self) -> Source {
        self.source.clone()
    }
}

/// Returns how the product is started in a container with these settings.
fn image(product: &dyn Product, settings: &Settings) -> Result<Image, NoServer> {
    can_be(settings).map_err(NoServer::Absent)?;
    let none = || NoServer::Absent(format!("the suite knows no image of {}", product.listing().name));
    product.image(settings).ok_or_else(none)
}

/// Waits until the server answers; returns its name and version.
fn answer(product: &dyn Product, url: &str, container: &Container) -> Result<String, String> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let refusal = match product.greet(url) {
            Ok(version) => return Ok(version),
            Err(refusal) => refusal,
        };
        let state = match container.is_running() {
            Ok(false) => "it ended".to_owned(),
            Err(why) => return Err(why),
            Ok(true) if Instant::now() >= deadline => {
                format!("it doesn't answer after {LIMIT:?} ({refusal})")
            }
            Ok(true) => {
                thread::sleep(INTERVAL);
                continue;
            }
        };
        return Err(format!("{state}; its log ends with: {}", last_lines(&container.log())));
    }
}
