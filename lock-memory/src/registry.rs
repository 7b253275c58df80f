//! `memory://NAME`: the servers of this process, by name.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lock_core::{Client, Error, Location, Options, Result};

use crate::host::Cut;
use crate::memory::Memory;

/// Lives as long as the process, as does what is locked there.
static SERVERS: Mutex<BTreeMap<String, Memory>> = Mutex::new(BTreeMap::new());

const PARAMETERS: &str = "prefix, patience";

/// Opens a client of the server that `url` names, which begins when it is first named in this process.
///
/// `memory://NAME` is a server of the lease family, `memory+queue://NAME` one of the queue family; without a name,
/// the default one. Parameters: `prefix` (stands before every name), `patience` (how long one request may take).
/// `Invalid` for another scheme, an unknown parameter, or a client without a runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> lock_core::Result<()> {
/// let client = lock_memory::connect("memory://jobs?prefix=nightly:", lock_core::Options::default()).await?;
/// let guard = client.lock("report").build()?.acquire().await?;
/// assert!(lock_memory::named("memory://jobs")?.expire("nightly:report"));
/// # drop(guard); Ok(()) }
/// ```
pub async fn connect(url: &str, mut options: Options) -> Result<Client> {
    let mut location = Location::parse(url)?;
    let memory = named(location.base())?;
    let prefix = location.take_prefix()?;
    if let Some(patience) = location.take_duration("patience")? {
        options = options.patience(patience);
    }
    location.finish(PARAMETERS)?;
    memory.open(prefix, options, &Cut::default()).await
}

/// The server behind a URL without parameters: for tests of code that is given a URL.
pub fn named(base: &str) -> Result<Memory> {
    let (begin, name): (fn() -> Memory, _) = match base.split_once("://") {
        Some(("memory", name)) => (Memory::new, name),
        Some(("memory+queue", name)) => (Memory::queue, name),
        _ => {
            return Err(Error::invalid(
                "the URL of a server in memory is memory://NAME or memory+queue://NAME",
            ));
        }
    };
    // Nothing that can panic runs under this lock: a poisoned map is whole.
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(servers.entry(base.to_owned()).or_insert_with(|| begin().called(name)).clone())
}
