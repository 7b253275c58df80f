//! The requests that the library sends for a free lock, and for two owners that take turns, for the benchmark `floor`
//! (the raw client with the same requests). Not for users: they change with the layout of the nodes.

use std::time::Duration;

use lock_core::{Label, Owner};
use zookeeper_client::{Acls, CreateMode, CreateOptions};

use crate::layout;
use crate::settings::ZooKeeper;

/// The folder that the directories are in.
pub const FOLDER: &str = ZooKeeper::DEFAULT_FOLDER;

/// Returns the directory of a name.
pub fn directory(name: &str) -> String {
    format!("{FOLDER}/{}", layout::component(name))
}

/// Returns how the folder is created.
pub fn folder_options() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

/// Returns how a directory is created.
pub fn directory_options() -> CreateOptions<'static> {
    CreateMode::Container.with_acls(Acls::anyone_all())
}

/// Returns the beginning of the path of an owner's node in this directory.
pub fn node(directory: &str, owner: &Owner) -> String {
    format!("{directory}/{}", layout::node_prefix(owner))
}

/// Returns how a node is created.
pub fn node_options() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

/// Returns the data of a node.
pub fn data(timeout: Duration) -> Vec<u8> {
    layout::data(&Label::new("lock-bench"), timeout)
}

/// Returns the child right before the node of this name; `None` if that is the first.
pub fn before(children: Vec<String>, name: &str) -> Option<String> {
    let queue = layout::queue(children);
    let at = queue.iter().position(|ticket| ticket.name == name)?;
    queue.get(at.checked_sub(1)?).map(|ticket| ticket.name.clone())
}
