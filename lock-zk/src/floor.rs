//! The very requests of uncontended names and of two who take turns, for the benchmark's floor. Not for users: they change
//! with the nodes.

use std::time::Duration;

use lock_core::{Label, Owner};
use zookeeper_client::{Acls, CreateMode, CreateOptions};

use crate::layout;

/// The directory of a name, below the root.
pub fn directory(name: &str) -> String {
    format!("/{}", layout::component(name))
}

/// How a directory is made.
pub fn directory_options() -> CreateOptions<'static> {
    CreateMode::Container.with_acls(Acls::anyone_all())
}

/// The path that an owner's node in this directory begins with.
pub fn node(directory: &str, owner: &Owner) -> String {
    format!("{directory}/{}", layout::node_prefix(owner))
}

/// How a node is made.
pub fn node_options() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

/// What it holds.
pub fn data(timeout: Duration) -> Vec<u8> {
    layout::data(&Label::new("lock-bench"), timeout)
}

/// Of these children, the one right before the node of this name; nothing if that is the first.
pub fn before(children: Vec<String>, name: &str) -> Option<String> {
    let queue = layout::queue(children);
    let at = queue.iter().position(|ticket| ticket.name == name)?;
    queue.get(at.checked_sub(1)?).map(|ticket| ticket.name.clone())
}
