//! Watches on nodes. Only the task of their session waits for them: the watchers of the `zookeeper-client` crate panic
//! if they are polled after their connection was ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, oneshot};
use zookeeper_client::OneshotWatcher;

/// A watch that the server keeps, on its way to the session's task.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The number of its connection.
    pub(crate) link: u64,
    watcher: OneshotWatcher,
    wakes: Arc<Notify>,
    fired: Arc<AtomicBool>,
    unwanted: oneshot::Receiver<()>,
}

/// The claim's side of a watch. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watching {
    path: String,
    link: u64,
    fired: Arc<AtomicBool>,
    _wanted: oneshot::Sender<()>,
}

/// Splits a watch on `path` into the session's side, which waits for it, and the claim's side.
pub(crate) fn watch(
    path: String,
    link: u64,
    watcher: OneshotWatcher,
    wakes: Arc<Notify>,
) -> (Watch, Watching) {
    let (wanted, unwanted) = oneshot::channel();
    let fired = Arc::new(AtomicBool::new(false));
    let watching = Watching { path, link, fired: fired.clone(), _wanted: wanted };
    (Watch { link, watcher, wakes, fired, unwanted }, watching)
}

impl Watch {
    /// Resolves when something has happened to the node and the claim was woken, or when the claim has dropped its
    /// side.
    pub(crate) async fn fire(self) {
        let Watch { watcher, wakes, fired, unwanted, .. } = self;
        tokio::select! {
            biased;
            // When the watcher is dropped, it removes the watch on the server.
            _ = unwanted => {}
            _ = watcher.changed() => {
                fired.store(true, Ordering::SeqCst);
                wakes.notify_one();
            }
        }
    }
}

impl Watching {
    /// Returns whether it watches this node on this connection, and the server has reported no event.
    pub(crate) fn is_quiet(&self, path: &str, link: u64) -> bool {
        self.path == path && self.link == link && !self.has_fired()
    }

    /// Returns whether something has happened to the node.
    pub(crate) fn has_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}
