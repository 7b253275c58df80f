//! Replaces the Docker module where the feature `docker` is off: there are no containers.

use std::convert::Infallible;

use super::image::Image;
use super::requirement::NoServer;

/// A container, which cannot exist here.
#[derive(Debug)]
pub(super) struct Container(Infallible);

impl Container {
    pub(super) fn start(_: &Image, _: &str) -> Result<Container, NoServer> {
        Err(NoServer::Absent("lock-test-servers was built without its feature `docker`".to_owned()))
    }

    pub(super) fn address(&self) -> &str {
        match self.0 {}
    }

    pub(super) fn is_running(&self) -> Result<bool, String> {
        match self.0 {}
    }

    pub(super) fn log(&self) -> String {
        match self.0 {}
    }
}
