//! Watches on nodes. They are waited for in the task of their session, and nowhere else: the client's watchers panic if
//! they are asked after their connection was ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Notify, oneshot};
use zookeeper_client::OneshotWatcher;

/// A watch that the server keeps, on its way to the session's task.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Of which connection it is.
    pub(crate) link: u64,
    watcher: OneshotWatcher,
    wakes: Arc<Notify>,
    fired: Arc<AtomicBool>,
    unwanted: oneshot::Receiver<()>,
}

/// Somebody who is woken by a watch; ends it when dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    path: String,
    link: u64,
    fired: Arc<AtomicBool>,
    _wanted: oneshot::Sender<()>,
}

/// Makes a watch on `path` into what waits for it and what is woken.
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
    /// Resolves when something has happened to the node, and its waiter was woken, or when nobody waits any more.
    pub(crate) async fn fire(self) {
        let Watch { watcher, wakes, fired, unwanted, .. } = self;
        tokio::select! {
            biased;
            // Dropped, the watcher tells the server.
            _ = unwanted => {}
            _ = watcher.changed() => {
                fired.store(true, Ordering::SeqCst);
                wakes.notify_one();
            }
        }
    }
}

impl Watching {
    /// Whether nothing has happened to this node, as far as the server has told on this connection.
    pub(crate) fn is_quiet(&self, path: &str, link: u64) -> bool {
        self.path == path && self.link == link && !self.has_fired()
    }

    /// Whether something has happened to the node.
    pub(crate) fn has_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}
