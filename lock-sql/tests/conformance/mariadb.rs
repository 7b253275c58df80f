//! Runs the conformance suite on MariaDB.

mod mysql_family;
mod statements;

use lock_conformance::Verdict;
use lock_test_servers::MySql;

fn main() -> Verdict {
    mysql_family::main(&MySql::MariaDb)
}
