//! The settings with which a server is started.

use std::sync::Arc;

use super::host::Host;

/// The settings with which a server is started.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The data that it writes to disk.
    pub persistence: Persistence,
    /// The wall clock that it reads.
    pub clock: Clock,
    /// Further arguments of the program.
    pub args: Vec<String>,
    /// The host on which it runs, if it isn't this one.
    pub host: Option<Arc<Host>>,
    /// Files in its data folder, by their names: certificates and their keys, for example. Only the server and this
    /// process can read them.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Settings {
    /// Adds arguments.
    #[must_use]
    pub fn and(mut self, args: &[&str]) -> Settings {
        self.args.extend(args.iter().map(|&argument| argument.to_owned()));
        self
    }
}

/// The data that a server writes to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Every write, before it is acknowledged.
    #[default]
    EveryWrite,
    /// Nothing, ever.
    None,
}

/// The wall clock that a server reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    #[default]
    Machines,
    /// A clock of its own, which starts with the machine's time and can be [set](crate::Owned::step_clock).
    Own,
}
