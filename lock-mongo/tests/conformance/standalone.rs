//! The conformance suite on MongoDB: a standalone server.

mod backend;

use std::env;

use lock_conformance::{Verdict, not_run};
use lock_test_servers::catalogue::MONGODB;
use lock_test_servers::{self as servers, run_on_server};

use backend::MongoDb;

/// Tells this program, started once more for a part of a case, that the environment's server is a standalone server.
const STANDALONE: &str = "LOCK_TEST_MONGODB_STANDALONE";

fn main() -> Verdict {
    if env::var_os(MONGODB.variable).is_some() && env::var_os(STANDALONE).is_none() {
        let why = format!("the suite `conformance` is run on the server that {} names", MONGODB.variable);
        return not_run("a standalone mongodb", &why);
    }
    run_on_server(MongoDb {
        product: &servers::MongoDb::Standalone,
        kind: backend::STANDALONE,
        environment: &[(STANDALONE, "1")],
    })
}
