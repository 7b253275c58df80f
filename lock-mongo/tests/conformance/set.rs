//! The conformance suite on MongoDB: a replica set of one member.

mod backend;

use lock_conformance::{Verdict, run_on_server, servers};

use backend::MongoDb;

fn main() -> Verdict {
    run_on_server(MongoDb { product: &servers::MongoDb, kind: "replica set", environment: &[] })
}
