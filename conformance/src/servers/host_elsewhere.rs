//! Hosts on this machine: there are none where there are no network namespaces.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::Arc;

use super::requirement::Absence;

/// Hosts that are connected with one another.
#[derive(Debug)]
pub struct Network(Infallible);

/// One of them.
#[derive(Debug)]
pub struct Host(Infallible);

impl Network {
    /// Always absent.
    pub fn of(_hosts: u8) -> Result<Network, Absence> {
        Err(Absence::NotRun("networks of a case's own are made on Linux only".to_owned()))
    }

    /// The hosts.
    pub fn hosts(&self) -> &[Arc<Host>] {
        match self.0 {}
    }
}

impl Host {
    /// Where clients find it.
    pub fn clients(&self) -> Ipv4Addr {
        match self.0 {}
    }

    /// Where its peers find it.
    pub fn peers(&self) -> Ipv4Addr {
        match self.0 {}
    }

    /// Pulls the cable to its peers.
    pub fn cut_off(&self) -> io::Result<()> {
        match self.0 {}
    }

    /// Plugs it in again.
    pub fn reconnect(&self) -> io::Result<()> {
        match self.0 {}
    }

    pub(super) fn command(&self, _command: &Command) -> Command {
        match self.0 {}
    }
}
