//! Locks of Curator and of kazoo beside ours, on servers of their own.

use lock_conformance::Verdict;
use lock_foreign_clients::{self as interop, Kind};
use lock_test_servers as servers;

fn main() -> Verdict {
    interop::run(&servers::ZooKeeper, &[Kind::Curator, Kind::Kazoo], |_, url| async move {
        lock_zk::connect(&url).await
    })
}
