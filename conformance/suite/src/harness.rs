//! A backend provides this to be tested: a way to open clients, and what else it is able to do.
//!
//! Each ability is a trait of its own. A case names the abilities that it needs in the parameters of its function. It
//! is *not run* if the harness has not all of them.

mod admin;
mod facts;
mod network;
mod own_server;
mod processes;
mod promise;
mod registers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Client, Options, Result};

pub use admin::{Age, Busy, Count, Counters, Forget, Interrupt, KeepBusy, Residue};
pub use facts::{Durable, IdleConnection, OneTrip, Replays, ToldTime};
pub use network::ThroughProxy;
pub use own_server::{ClockedServer, Data, OwnServer, OwnServers, ServerClocks, Step};
pub use processes::{ChildProcess, Command, Ended, Finished, LockProgram, Processes, Wait};
pub use promise::{Identity, Promise, Rises};
pub use registers::forget_in;

/// The shortest ttl for a server that answers within about a millisecond.
pub const SHORTEST_TTL: Duration = Duration::from_millis(400);

/// An ability of a harness, or the reason why it has none.
pub type Ability<T> = Result<Arc<T>, Missing>;

/// A backend under test. Only `name` and `open` are required. A case that needs an ability is *not run* where that is
/// missing, which is the default for all of them.
///
/// An ability is a trait that the harness may implement itself:
/// `fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> { Ok(self) }`. The suite asks for it before anything runs.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// Returns the backend's name, and on which server it is tested: `redis 7.0.15 (/usr/bin/redis-server)`.
    fn name(&self) -> String;

    /// Opens a client as another process would have it, with connections, sessions and clocks of its own.
    async fn open(&self, options: Options) -> Result<Client>;

    /// Returns the shortest ttl at which the server keeps time well enough to be tested.
    fn ttl(&self) -> Duration {
        SHORTEST_TTL
    }

    /// Returns by how much a holder's age, as the server's answers show it, may be too short.
    fn age_too_short_by(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns how many held locks one request can prove at most, on a server that keeps sessions. Default: any number.
    fn proven_at_once(&self) -> usize {
        usize::MAX
    }

    /// Returns whether a fork of a process that has clients can open one of its own. If not, opening it says so. Default: it
    /// can.
    fn opens_in_forks(&self) -> bool {
        true
    }

    /// Returns what the backend's documents promise of its servers. If they promise different things of several kinds of
    /// server, what the server says of itself has to agree with one of them. Default: they promise nothing.
    fn promised(&self) -> Vec<Promise> {
        Vec::new()
    }

    /// Returns how the server under test has ended, if it has. The run stops then: no case can say anything about the
    /// backend. Default: it never ends, or the harness cannot tell.
    fn server_ended(&self) -> Option<String> {
        None
    }

    /// Returns why the harness cannot do `what`, for every ability that it says nothing else about.
    fn missing(&self, what: &str) -> Missing {
        Missing::because(format!("this harness cannot {what}"))
    }

    /// Returns how the server is made to forget a holder.
    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        Err(self.missing(<dyn Forget>::WHAT))
    }

    /// Returns how the server's requests and writes are counted.
    fn can_count(self: Arc<Self>) -> Ability<dyn Count> {
        Err(self.missing(<dyn Count>::WHAT))
    }

    /// Returns how it is counted what locks have left on the server.
    fn can_count_residue(self: Arc<Self>) -> Ability<dyn Residue> {
        Err(self.missing(<dyn Residue>::WHAT))
    }

    /// Returns how the server's records are made older.
    fn can_age(self: Arc<Self>) -> Ability<dyn Age> {
        Err(self.missing(<dyn Age>::WHAT))
    }

    /// Returns how every connection is cut.
    fn can_interrupt(self: Arc<Self>) -> Ability<dyn Interrupt> {
        Err(self.missing(<dyn Interrupt>::WHAT))
    }

    /// Returns how names are kept busy at the server.
    fn can_keep_busy(self: Arc<Self>) -> Ability<dyn KeepBusy> {
        Err(self.missing(<dyn KeepBusy>::WHAT))
    }

    /// Returns how clients reach the server through a proxy.
    fn can_use_proxy(self: Arc<Self>) -> Ability<dyn ThroughProxy> {
        Err(self.missing(<dyn ThroughProxy>::WHAT))
    }

    /// Returns how servers are started that belong to one case.
    fn can_start_servers(self: Arc<Self>) -> Ability<dyn OwnServers> {
        Err(self.missing(<dyn OwnServers>::WHAT))
    }

    /// Returns how servers are started whose clocks can be set. Not for servers that end leases by a clock that cannot
    /// be set.
    fn can_set_clocks(self: Arc<Self>) -> Ability<dyn ServerClocks> {
        Err(self.missing(<dyn ServerClocks>::WHAT))
    }

    /// Returns how clients of the library are started in other processes.
    fn can_start_processes(self: Arc<Self>) -> Ability<dyn Processes> {
        Err(self.missing(<dyn Processes>::WHAT))
    }

    /// Returns how the program `lock` is run on the server.
    fn can_run_program(self: Arc<Self>) -> Ability<dyn LockProgram> {
        Err(self.missing(<dyn LockProgram>::WHAT))
    }

    /// Checks that what one connection has sent asks the same of the server when another connection sends it again. Not
    /// so where each connection begins with a session of its own.
    ///
    /// # Errors
    ///
    /// The reason, if it does not.
    fn replays(&self) -> Result<Replays, Missing> {
        Err(self.missing(Replays::WHAT))
    }

    /// Checks that the first answer to an attempt grants the lock, on a name that was used before. Not so where a look
    /// comes before it.
    ///
    /// # Errors
    ///
    /// The reason, if it does not.
    fn grants_in_one_trip(&self) -> Result<OneTrip, Missing> {
        Err(self.missing(OneTrip::WHAT))
    }

    /// Checks that a connection is used again however long it was silent. Not so where another connection takes its
    /// place.
    ///
    /// # Errors
    ///
    /// The reason, if it is not.
    fn keeps_idle_connections(&self) -> Result<IdleConnection, Missing> {
        Err(self.missing(IdleConnection::WHAT))
    }

    /// Checks that the server tells the time by which its leases end. Where this is not said, the suite checks that locks
    /// which are held once per period are refused.
    ///
    /// # Errors
    ///
    /// The reason, if it tells none.
    fn tells_its_time(&self) -> Result<ToldTime, Missing> {
        Err(self.missing(ToldTime::WHAT))
    }

    /// Checks that servers which belong to one case keep acknowledged data over a kill.
    ///
    /// # Errors
    ///
    /// The reason, if they do not.
    fn keeps_data(&self) -> Result<Durable, Missing> {
        Err(self.missing(Durable::WHAT))
    }
}

/// Why a harness is not able to do something. Its cases are reported as *not run*, with this reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(String);

impl Missing {
    /// Says why: "the server has no clock of its own".
    pub fn because(why: impl Into<String>) -> Missing {
        Missing(why.into())
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Missing {
    fn from(why: String) -> Missing {
        Missing(why)
    }
}

/// A case can take it besides its setting: an ability, or a fact about the server.
pub(crate) trait Needed: Sized {
    /// Returns it, as this harness has it.
    fn of(harness: &Arc<dyn Harness>) -> Result<Self, Missing>;
}

/// Says what the suite cannot do where a harness has not this ability or fact, and by which method a harness has it.
macro_rules! needed {
    ($($type:ty as $needed:ty: $method:ident, $what:literal;)+) => {$(
        impl $type {
            /// The suite cannot do this without it.
            pub const WHAT: &'static str = $what;
        }

        impl Needed for $needed {
            fn of(harness: &Arc<dyn Harness>) -> Result<Self, Missing> {
                harness.clone().$method()
            }
        }
    )+};
}

needed! {
    dyn Forget as Arc<dyn Forget>: can_forget, "make the server forget a holder";
    dyn Count as Arc<dyn Count>: can_count, "count the server's requests and writes";
    dyn Residue as Arc<dyn Residue>: can_count_residue, "count what is left on the server";
    dyn Age as Arc<dyn Age>: can_age, "make what the server keeps older";
    dyn Interrupt as Arc<dyn Interrupt>: can_interrupt, "cut every connection";
    dyn KeepBusy as Arc<dyn KeepBusy>: can_keep_busy, "keep a name busy at the server";
    dyn ThroughProxy as Arc<dyn ThroughProxy>: can_use_proxy, "reach the server through a proxy";
    dyn OwnServers as Arc<dyn OwnServers>: can_start_servers, "start a server of a case's own";
    dyn ServerClocks as Arc<dyn ServerClocks>: can_set_clocks, "set the clock by which the server ends leases";
    dyn Processes as Arc<dyn Processes>: can_start_processes, "reach the server from another process";
    dyn LockProgram as Arc<dyn LockProgram>: can_run_program, "run the program lock";
    Replays as Replays: replays, "ask everything twice";
    OneTrip as OneTrip: grants_in_one_trip, "grant by the first answer of an attempt";
    IdleConnection as IdleConnection: keeps_idle_connections, "use a connection that was silent for a long time";
    ToldTime as ToldTime: tells_its_time, "read the clock by which the server ends leases";
    Durable as Durable: keeps_data, "restart a server with its data";
}
