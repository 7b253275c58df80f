//! What the texts claim of the schemes, on real servers: the suite fails on each scheme exactly where the table says
//! so. The table has what the texts foretell, and marks what they don't.

mod crashes;
mod expected;
mod table;

use std::sync::Arc;

use libtest_mimic::Trial;
use lock_conformance::{Harness, Verdict, rules, run_case};
use lock_naive::Scheme;
use lock_naive::harness::OnServers;
use lock_test_servers::Absence;

use table::{Row, TABLE};

/// How many cases run side by side. They wait most of the time.
const AT_ONCE: usize = 8;

fn main() -> Verdict {
    let own = crashes::trials().into_iter().chain(expected::trials()).chain(table::trials());
    rules::run(Scheme::ALL.into_iter().flat_map(trials).chain(own).collect(), AT_ONCE)
}

/// Returns the rows of a scheme as tests.
fn trials(scheme: Scheme) -> Vec<Trial> {
    let rows = TABLE.iter().filter(move |row| row.scheme == scheme);
    match OnServers::start(scheme) {
        Ok(harness) => {
            let harness: Arc<dyn Harness> = Arc::new(harness);
            rows.map(|row| trial(row, harness.clone())).collect()
        }
        Err(Absence::NotRun(why)) => {
            rules::not_run(scheme.name(), &why, rows.map(|row| (row.to_string(), ())))
        }
        Err(Absence::Failure(why)) => rules::failed(scheme.name(), why),
    }
}

fn trial(row: &'static Row, harness: Arc<dyn Harness>) -> Trial {
    Trial::test(row.to_string(), move || {
        let outcome = run_case(harness, row.case);
        Ok(row.expected.compare(&outcome)?)
    })
}
