//! A backend provides this to be tested: a way to open clients, facts about its servers, and what else it is able to do.
//!
//! Each ability is a trait of its own. A case names the abilities and facts that it needs in the parameters of its
//! function. It is *not run* if the harness has not all of them.

mod abilities;
mod admin;
mod facts;
mod network;
mod own_server;
mod processes;
mod promise;
mod registers;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Client, Options, Result};

pub use abilities::{Abilities, Ability};
pub use admin::{Age, Busy, Count, Counters, Forget, Interrupt, KeepBusy, Residue};
pub use facts::{Durable, Facts, IdleConnection, OneTrip, Replays, SHORTEST_TTL, ToldTime};
pub use network::ThroughProxy;
pub use own_server::{ClockedServer, Data, OwnServer, OwnServers, ServerClocks, Step};
pub use processes::{ChildProcess, Command, Ended, Finished, LockProgram, Processes, Wait};
pub use promise::{Identity, Promise, Rises};
pub use registers::forget_in;

use crate::setting::Setting;

/// A backend under test. Only `name` and `open` are required. A case that needs an ability is *not run* where that is
/// missing.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// Returns the backend's name, and on which server it is tested: `redis 7.0.15 (/usr/bin/redis-server)`.
    fn name(&self) -> String;

    /// Opens a client as another process would have it, with connections, sessions and clocks of its own.
    async fn open(&self, options: Options) -> Result<Client>;

    /// Returns what cases have to know of the backend and its servers. Default: they promise nothing.
    fn facts(&self) -> Facts {
        Facts::promising([])
    }

    /// Returns how the server under test has ended, if it has. The run stops then: no case can say anything about the
    /// backend. Default: it never ends, or the harness cannot tell.
    fn server_ended(&self) -> Option<String> {
        None
    }

    /// Returns what the harness is able to do to the server. The suite asks once, before anything runs. Default: nothing.
    ///
    /// The harness may implement the traits itself:
    /// `Abilities { forget: Ok(self), ..Abilities::none("this harness cannot") }`.
    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities::none("this harness cannot")
    }
}

/// Why a harness is not able to do something. Its cases are reported as *not run*, with this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(String);

impl Missing {
    /// Says why: "the server has no clock of its own".
    pub fn because(why: impl Into<String>) -> Missing {
        Missing(why.into())
    }
}

impl From<String> for Missing {
    fn from(why: String) -> Missing {
        Missing(why)
    }
}

/// A case can take it besides its setting: an ability, or a fact about the server.
pub(crate) trait Needed: Sized {
    /// Returns it, as the harness of this setting has it.
    fn of(setting: &Setting) -> Result<Self, Missing>;
}
