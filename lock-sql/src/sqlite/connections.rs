//! All connections of this process to one file.
//!
//! SQLite lets them share the log's index, and keeps using an index that was removed for as long as any of them is
//! open. So connections that no longer lead to the file are closed together, before a new one is opened. Connections
//! are opened one at a time: if several were opened at once, each would find the index that another one has kept.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use lock_core::toolkit::{Call, PerProcess};
use lock_core::{Effect, Error, Result};
use tokio::sync::OwnedMutexGuard;

use super::file::File;
use super::serial_connection::IdleLink;

static OPEN: PerProcess<Mutex<HashMap<PathBuf, Connections>>> = PerProcess::new();

/// The connections to one file.
#[derive(Default)]
struct Connections {
    links: Vec<Weak<IdleLink>>,
    opening: Arc<tokio::sync::Mutex<()>>,
}

/// The right to open a connection. It ends when it is dropped.
pub(crate) type Turn = OwnedMutexGuard<()>;

/// Registers the link of a connection to `file`.
pub(crate) fn register(file: &File, link: &Arc<IdleLink>) {
    let mut open = OPEN.get().lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|_, connections| {
        connections.links.retain(|link| link.strong_count() > 0);
        !connections.links.is_empty()
    });
    open.entry(file.path().to_owned()).or_default().links.push(Arc::downgrade(link));
}

/// Waits until no other connection to `file` is being opened. The caller must have closed its own stale connection
/// before; otherwise the connections that are opened first would find its index.
pub(crate) async fn turn(file: &File, call: &Call) -> Result<Turn> {
    let opening = {
        let mut open = OPEN.get().lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(file.path().to_owned()).or_default().opening.clone()
    };
    let turn = call.clock().timeout(call.left(), opening.lock_owned()).await;
    turn.ok_or_else(|| {
        Error::unavailable(Effect::NotApplied, "other connections to the file were being opened all the time")
    })
}

/// Closes the connections that no longer lead to `file`. It skips a connection in use, which is checked at its own next
/// call.
pub(crate) async fn close_stale(file: &File) {
    for link in of(file) {
        let stale = match link.try_lock() {
            Ok(mut link) => link.take_if(|link| !link.leads_to(file)),
            Err(_) => None,
        };
        if let Some(link) = stale {
            link.close().await;
        }
    }
}

fn of(file: &File) -> Vec<Arc<IdleLink>> {
    let open = OPEN.get().lock().unwrap_or_else(PoisonError::into_inner);
    open.get(file.path())
        .into_iter()
        .flat_map(|connections| &connections.links)
        .filter_map(Weak::upgrade)
        .collect()
}
