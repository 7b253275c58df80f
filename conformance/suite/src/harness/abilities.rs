//! A harness is able to do these things to the servers under test.

use std::sync::Arc;

use super::{
    Age, Count, Forget, Interrupt, KeepBusy, LockProgram, Missing, Needed, OwnServers, Processes, Residue,
    ServerClocks, ThroughProxy,
};
use crate::setting::Setting;

/// An ability of a harness, or the reason why it has none.
pub type Ability<T> = Result<Arc<T>, Missing>;

/// `field: Trait, "what the suite cannot do without it";`
macro_rules! abilities {
    ($($(#[$doc:meta])+ $field:ident: $ability:ident, $what:literal;)+) => {
        /// The abilities of a harness, or the reasons why they are missing.
        #[derive(Clone, Debug)]
        pub struct Abilities {
            $($(#[$doc])+ pub $field: Ability<dyn $ability>,)+
        }

        impl Abilities {
            /// Returns none of them. The reason for each begins with these words, and goes on with what the suite does
            /// with the ability: "this harness cannot", "cut every connection".
            pub fn none(cannot: &str) -> Abilities {
                Abilities { $($field: Err(Missing::because(format!("{cannot} {}", $what))),)+ }
            }
        }

        $(impl Needed for Arc<dyn $ability> {
            fn of(setting: &Setting) -> Result<Self, Missing> {
                setting.abilities.$field.clone()
            }
        })+
    };
}

abilities! {
    /// The server is made to forget a holder.
    forget: Forget, "make the server forget a holder";
    /// The server's requests and writes are counted.
    count: Count, "count the server's requests and writes";
    /// It is counted what locks have left on the server.
    residue: Residue, "count what is left on the server";
    /// The server's records are made older.
    age: Age, "make what the server keeps older";
    /// Every connection is cut.
    interrupt: Interrupt, "cut every connection";
    /// Names are kept busy at the server.
    keep_busy: KeepBusy, "keep a name busy at the server";
    /// Clients reach the server through a proxy.
    proxy: ThroughProxy, "reach the server through a proxy";
    /// Servers are started that belong to one case.
    servers: OwnServers, "start a server of a case's own";
    /// Servers are started whose clocks can be set. Not for servers that end leases by a clock that cannot be set.
    clocks: ServerClocks, "set the clock by which the server ends leases";
    /// Clients of the library are started in other processes.
    processes: Processes, "reach the server from another process";
    /// The program `lock` is run on the server.
    program: LockProgram, "run the program lock";
}

impl Abilities {
    /// Adds those of an administrator that can do all that every server knows.
    #[must_use]
    pub fn with_admin<Admin>(self, admin: &Arc<Admin>) -> Abilities
    where
        Admin: Forget + Count + Residue + Age + Interrupt + 'static,
    {
        Abilities {
            forget: Ok(admin.clone()),
            count: Ok(admin.clone()),
            residue: Ok(admin.clone()),
            age: Ok(admin.clone()),
            interrupt: Ok(admin.clone()),
            ..self
        }
    }
}
