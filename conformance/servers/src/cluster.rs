//! Servers that work only together: each answers when enough of the others do.

use std::io;
use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use super::host::Network;
use super::owned::Owned;
use super::port::Port;
use super::product::Product;
use super::requirement::Absence;
use super::settings::Settings;
use super::waiting::until;

/// A cluster has this long to agree.
const LIMIT: Duration = Duration::from_secs(30);
/// The time between two questions to its members.
const INTERVAL: Duration = Duration::from_millis(20);

/// Three servers of one product that were started here: a cluster, an ensemble, a replica set. Dropping it kills them.
#[derive(Debug)]
pub struct Cluster {
    pub(super) members: Vec<Owned>,
    pub(super) url: String,
    /// Returns true of a member that says it leads.
    pub(super) leads: fn(&Owned) -> bool,
    /// Returns true of a member that says it leads or follows.
    pub(super) serves: fn(&Owned) -> bool,
    /// The ports at which they find each other.
    pub(super) _ports: Vec<Port>,
}

impl Cluster {
    /// Returns the URL for clients, which names all members.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns its members.
    pub fn members(&self) -> &[Owned] {
        &self.members
    }

    /// Waits until exactly one member that runs leads, and returns which one.
    ///
    /// # Errors
    ///
    /// If there is none in time.
    pub fn leader(&self) -> io::Result<usize> {
        one(&self.members, "leader", self.leads)
    }

    /// Waits until every member serves again. Until then, the loss of one more member may be one too many.
    ///
    /// # Errors
    ///
    /// If that takes too long.
    pub fn become_whole(&self) -> io::Result<()> {
        all(&self.members, self.serves)
    }
}

/// Returns the settings for three servers: each on a host of its own, if there is such a network, otherwise here.
pub(super) fn three(settings: &Settings, network: Option<&Network>) -> [Settings; 3] {
    let host = |n: usize| network.map(|network| network.hosts()[n].clone());
    std::array::from_fn(|n| Settings { host: host(n), ..settings.clone() })
}

/// Returns free ports at which members will find each other.
pub(super) fn ports(count: usize) -> Result<Vec<Port>, Absence> {
    let ports: io::Result<_> = (0..count).map(|_| Port::free()).collect();
    ports.map_err(|e| Absence::Failure(format!("no cluster: {e}")))
}

/// Returns where clients find the members, separated by commas.
pub(super) fn addresses(members: &[Owned]) -> String {
    members.iter().map(Owned::address).collect::<Vec<_>>().join(",")
}

/// Returns the address at which the others find a server with these settings.
pub(super) fn peers(settings: &Settings) -> Ipv4Addr {
    settings.host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.peers())
}

/// Starts them at the same time, and waits until each of them answers.
pub(super) fn start(product: &'static dyn Product, settings: &[Settings]) -> Result<Vec<Owned>, Absence> {
    thread::scope(|scope| {
        let start = |settings| scope.spawn(move || Owned::start(product, settings));
        let starting: Vec<_> = settings.iter().map(start).collect();
        // A panic of one of these threads is a panic here.
        starting.into_iter().map(|started| started.join().expect("the start has panicked")).collect()
    })
}

/// Returns the one member for which `is` returns true, as soon as there is exactly one.
pub(super) fn one(members: &[Owned], what: &str, is: impl Fn(&Owned) -> bool) -> io::Result<usize> {
    let found = until(LIMIT, INTERVAL, || {
        let such: Vec<usize> = (0..members.len()).filter(|&n| runs(&members[n]) && is(&members[n])).collect();
        Ok(if let [one] = such[..] { Some(one) } else { None })
    })?;
    found.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, format!("no {what} within {LIMIT:?}")))
}

/// Waits until `is` returns true for all of them.
pub(super) fn all(members: &[Owned], is: impl Fn(&Owned) -> bool) -> io::Result<()> {
    let whole = || members.iter().all(|member| runs(member) && is(member));
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("not whole again within {LIMIT:?}"));
    until(LIMIT, INTERVAL, || Ok(whole().then_some(())))?.ok_or_else(late)
}

fn runs(member: &Owned) -> bool {
    member.process_id().is_some()
}
