//! Locks of other libraries beside ours, on servers of their own: on our layout those that lock one key, on Redisson's
//! layout Redisson, on one server and on a cluster.

use lock_conformance::Verdict;
use lock_core::{Client, Result};
use lock_foreign_clients::{self as interop, Kind, Stage};
use lock_test_servers as servers;

const KINDS: &[Kind] = &[
    Kind::RedisPy,
    Kind::NodeRedlock,
    Kind::Rslock,
    Kind::Redsync,
    Kind::Redislock,
    Kind::RedissonLock,
    Kind::RedissonFenced,
    Kind::RedissonSpin,
    Kind::RedissonFair,
];

/// The others ask one server only.
const ON_A_CLUSTER: &[Kind] = &[Kind::RedissonLock, Kind::RedissonFenced, Kind::RedissonSpin];

fn main() -> Verdict {
    let stages = [(Stage::Server(&servers::Redis), KINDS), (Stage::RedisCluster, ON_A_CLUSTER)];
    interop::run(&stages, open)
}

async fn open(kind: Kind, url: String) -> Result<Client> {
    let layout = match kind {
        Kind::RedissonLock | Kind::RedissonSpin | Kind::RedissonFair => "?layout=redisson",
        Kind::RedissonFenced => "?layout=redisson&fenced=1",
        _ => "",
    };
    lock_redis::connect(&format!("{url}{layout}")).await
}
