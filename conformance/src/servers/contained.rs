//! A server in a container, which was started here and yet is not ours to hurt.

use std::thread;
use std::time::{Duration, Instant};

use super::Source;
use super::docker::Container;
use super::image::{Image, can_be};
use super::owned::{Settings, last_lines};
use super::product::Product;
use super::record;
use super::requirement::Lack;

/// How long a server may take to make its data and to answer.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(50);

/// A server in a container, on a free port of 127.0.0.1. Dropping it removes the container, with its data.
///
/// Nothing else does: a process that is killed leaves its containers behind. They have the label
/// `org.testcontainers.managed-by=testcontainers`, by which `docker ps --filter label=…` finds them.
///
/// With `DOCKER_HOST` on another machine, or from within a container, the port is open to whoever reaches that machine.
#[derive(Debug)]
pub struct Contained {
    url: String,
    version: String,
    source: Source,
    // Removed when it is dropped.
    _container: Container,
}

impl Contained {
    /// Starts one of the product's own image.
    pub(super) fn start(product: &dyn Product, settings: &Settings) -> Result<Contained, Lack> {
        let image = image(product, settings)?;
        Contained::run(product, &image, image.name)
    }

    /// Starts one of the image of that name, which is like the product's own.
    pub(super) fn of_image(
        product: &dyn Product,
        name: &str,
        settings: &Settings,
    ) -> Result<Contained, Lack> {
        Contained::run(product, &image(product, settings)?, name)
    }

    fn run(product: &dyn Product, image: &Image, name: &str) -> Result<Contained, Lack> {
        let container = Container::start(image, name)?;
        let url = (image.url)(container.address());
        let version = answer(product, &url, &container)
            .map_err(|why| Lack::Failure(format!("a container of {name} did not start: {why}")))?;
        let source = Source::Container { image: name.to_owned() };
        record::ran_on(&version, &source);
        Ok(Contained { url, version, source, _container: container })
    }

    /// Where clients connect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it calls itself, and its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Of which image it is.
    pub(super) fn source(&self) -> Source {
        self.source.clone()
    }
}

/// How the product is started in a container with these settings.
fn image(product: &dyn Product, settings: &Settings) -> Result<Image, Lack> {
    can_be(settings).map_err(Lack::Nothing)?;
    let none = || Lack::Nothing(format!("no image of {} is known here", product.listing().name));
    product.image(settings).ok_or_else(none)
}

/// Waits until the server answers; tells its name and version.
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
