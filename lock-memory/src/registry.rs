//! `memory://NAME`: the servers of this process, by name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lock_core::toolkit::{Location, PerProcess};
use lock_core::{Client, Error, Options, Result};

use crate::host::Cut;
use crate::memory::Memory;

/// The servers live as long as the process, and so does what is locked on them. A fork has none of its parent's.
static SERVERS: PerProcess<Mutex<BTreeMap<String, Memory>>> = PerProcess::new();

const PARAMETERS: &str = "prefix, patience, connect_wait, lazy";

/// Opens a client of the server that `url` names. The server is created when it is first named in this process.
///
/// `memory://NAME` is a server of the lease family, `memory+queue://NAME` one of the queue family, and
/// `memory+register://NAME` one of the register family; an empty name is the default server. Parameters: `prefix` (put
/// before every name), `patience` (how long one request may take), `connect_wait` and `lazy` (as for other servers, but
/// opening waits for nothing here).
///
/// ```
/// # mod onelock { pub use lock_core::*; pub use lock_memory as memory; }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lock_core::Result<()> {
/// let client = onelock::memory::connect("memory://jobs?prefix=nightly:", onelock::Options::default()).await?;
/// let guard = client.lock("report").build()?.acquire().await?;
/// assert!(onelock::memory::named("memory://jobs")?.expire("nightly:report"));
/// # drop(guard); Ok(()) }
/// ```
///
/// # Errors
///
/// `Invalid` for another scheme, for an unknown parameter, and outside a tokio runtime, unless the options are
/// [`dedicated`](Options::dedicated).
///
/// # Cancel safety
///
/// If the future is dropped, no client is opened. The server may have been created.
pub async fn connect(url: &str, options: Options) -> Result<Client> {
    let mut location = Location::parse(url)?;
    let memory = named(location.base())?;
    let common = location.take_common()?;
    location.finish(PARAMETERS)?;
    let options = common.apply_to(options);
    memory.open(common.prefix, options, &Cut::default()).await
}

/// Returns the server behind a URL without parameters, for tests of code that is given a URL.
///
/// # Errors
///
/// `Invalid` unless the scheme is `memory://`, `memory+queue://` or `memory+register://`.
pub fn named(base: &str) -> Result<Memory> {
    let location = Location::parse(base)?;
    let base = location.base();
    let (begin, name): (fn() -> Memory, _) = match base.split_once("://") {
        Some(("memory", name)) => (Memory::new, name),
        Some(("memory+queue", name)) => (Memory::queue, name),
        Some(("memory+register", name)) => (Memory::register, name),
        _ => {
            let what = "memory://NAME, memory+queue://NAME or memory+register://NAME";
            return Err(Error::invalid(format!("the URL of a server in memory is {what}")));
        }
    };
    // No code that runs under this lock can panic, so a poisoned map is complete.
    let mut servers = SERVERS.get().lock().unwrap_or_else(PoisonError::into_inner);
    Ok(servers.entry(base.to_owned()).or_insert_with(|| begin().called(name)).clone())
}
