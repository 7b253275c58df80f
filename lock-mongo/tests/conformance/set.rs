//! The conformance suite on MongoDB: a replica set of one member.

mod backend;

use lock_conformance::Verdict;
use lock_test_servers::{self as servers, run_on_server};

use backend::MongoDb;

fn main() -> Verdict {
    run_on_server(MongoDb { product: &servers::MongoDb::Set, kind: "replica set", environment: &[] })
}
