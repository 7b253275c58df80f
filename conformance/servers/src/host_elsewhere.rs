//! Replaces the hosts on this machine where there are no network namespaces.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;

use super::requirement::Absence;

/// Hosts that are connected with one another, which cannot exist here.
#[derive(Debug)]
pub struct Network(Infallible);

/// One of the hosts of a [`Network`].
#[derive(Debug)]
pub struct Host(Infallible);

impl Network {
    /// Never makes hosts.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn of(_hosts: u8) -> Result<Network, Absence> {
        Err(Absence::NotRun("a case's own network can be made on Linux only".to_owned()))
    }

    /// Returns the hosts.
    pub fn hosts(&self) -> &[Arc<Host>] {
        match self.0 {}
    }
}

impl Host {
    /// Returns the address at which clients find the host.
    pub fn clients(&self) -> Ipv4Addr {
        match self.0 {}
    }

    /// Returns the address at which its peers find the host.
    pub fn peers(&self) -> Ipv4Addr {
        match self.0 {}
    }

    /// Cuts the connection to its peers.
    pub fn cut_off(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// Restores the connection to its peers.
    pub fn reconnect(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn command(&self, _command: &Command) -> Command {
        match self.0 {}
    }
}
