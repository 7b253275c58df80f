//! Servers that work only together: they agree on a leader, and continue without a lost one.

use std::io;
use std::net::TcpStream;

use lock_conformance::Data;
use lock_test_servers::{Absence, Ensemble, EtcdCluster, Network, Owned, Settings};

use crate::{Stop, until};

/// A cluster of three, of any product.
trait Cluster: Sized {
    fn start(settings: &Settings) -> Result<Self, Absence>;
    fn start_on(network: &Network, settings: &Settings) -> Result<Self, Absence>;
    fn members(&self) -> &[Owned];
    fn leader(&self) -> io::Result<usize>;
    fn become_whole(&self) -> io::Result<()>;
}

/// Implements the trait for a cluster that has methods of the same names.
macro_rules! cluster {
    ($cluster:ty) => {
        impl Cluster for $cluster {
            fn start(settings: &Settings) -> Result<Self, Absence> {
                <$cluster>::start(settings)
            }

            fn start_on(network: &Network, settings: &Settings) -> Result<Self, Absence> {
                <$cluster>::start_on(network, settings)
            }

            fn members(&self) -> &[Owned] {
                self.members()
            }

            fn leader(&self) -> io::Result<usize> {
                self.leader()
            }

            fn become_whole(&self) -> io::Result<()> {
                self.become_whole()
            }
        }
    };
}

cluster!(EtcdCluster);
cluster!(Ensemble);

pub(crate) fn etcd_without_its_leader() -> Result<(), Stop> {
    goes_on::<EtcdCluster>()
}

pub(crate) fn zookeeper_without_its_leader() -> Result<(), Stop> {
    goes_on::<Ensemble>()
}

pub(crate) fn etcd_cut_apart() -> Result<(), Stop> {
    is_cut_apart::<EtcdCluster>()
}

pub(crate) fn zookeeper_cut_apart() -> Result<(), Stop> {
    is_cut_apart::<Ensemble>()
}

fn goes_on<C: Cluster>() -> Result<(), Stop> {
    let cluster = C::start(&Settings::default())?;
    let first = cluster.leader()?;
    cluster.members()[first].kill()?;
    until(|| cluster.leader().is_ok_and(|leader| leader != first));
    cluster.members()[first].restart(Data::Kept)?;
    cluster.become_whole()?;
    Ok(())
}

/// Cuts a leader off: its peers no longer reach it, but its clients do.
fn is_cut_apart<C: Cluster>() -> Result<(), Stop> {
    let network = Network::of(3)?;
    let cluster = C::start_on(&network, &Settings::default())?;
    let first = cluster.leader()?;
    network.hosts()[first].cut_off()?;
    until(|| cluster.leader().is_ok_and(|leader| leader != first));
    TcpStream::connect(cluster.members()[first].address())?;
    network.hosts()[first].reconnect()?;
    cluster.become_whole()?;
    Ok(())
}
