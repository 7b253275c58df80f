//! Locks of Curator and of kazoo beside ours, on servers of their own.

use lock_conformance::Verdict;
use lock_foreign_clients::{self as interop, Kind, Stage};
use lock_test_servers as servers;

fn main() -> Verdict {
    let kinds = [Kind::Curator, Kind::Kazoo];
    let stage = (Stage::Server(&servers::ZooKeeper), kinds.as_slice());
    interop::run(&[stage], |_, url| async move { lock_zk::connect(&url).await })
}
