//! Locks of Curator and of kazoo beside ours, on servers of their own.

use lock_conformance::interop::{self, Kind};
use lock_conformance::{Verdict, servers};

fn main() -> Verdict {
    interop::run(&servers::ZooKeeper, &[Kind::Curator, Kind::Kazoo], |url| async move {
        lock_zk::connect(&url).await
    })
}
