//! Locks of Go's client and of `etcdctl` together with ours, on servers of their own.

use lock_conformance::Verdict;
use lock_foreign_clients::{self as interop, Kind};
use lock_test_servers as servers;

fn main() -> Verdict {
    interop::run(&servers::Etcd, &[Kind::EtcdGo, Kind::Etcdctl], |_, url| async move {
        lock_etcd::connect(&url).await
    })
}
