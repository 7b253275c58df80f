//! Locks of Go's client and of `etcdctl` together with ours, on servers of their own.

use lock_conformance::Verdict;
use lock_foreign_clients::{self as interop, Kind, Stage};
use lock_test_servers as servers;

fn main() -> Verdict {
    let kinds = [Kind::EtcdGo, Kind::Etcdctl];
    let stage = (Stage::Server(&servers::Etcd), kinds.as_slice());
    interop::run(&[stage], |_, url| async move { lock_etcd::connect(&url).await })
}
