//! Single cases, for tests that compare what becomes of a case with what should: of drivers with known flaws, for example.

use std::sync::Arc;

use lock_core::Options;

use crate::cases;
use crate::harness::Harness;
use crate::runner::{judged, reason_not_to};
use crate::runtime::block_on;
use crate::setting::Setting;

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The backend did what the case asks for.
    Passed,
    /// It did not; the text says what is wrong.
    Failed(String),
    /// It was not run, for this reason: the backend does not promise it, or the harness is not able to test it.
    NotRun(String),
}

/// Runs the case `topic::name` on `harness`, and returns what became of it. Reports nothing.
///
/// Cases that are called from several threads at a time share the machine as in a run of the whole suite. The caller
/// must not be in a runtime: the case has one of its own.
///
/// # Panics
///
/// If there is no case of this name.
pub fn run_case(harness: Arc<dyn Harness>, name: &str) -> CaseOutcome {
    let case = cases::all().find(|case| name.split_once("::") == Some((case.topic, case.name)));
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let opened = block_on(async { harness.open(Options::default()).await.map(|client| client.info()) });
    let info = match opened {
        Ok(info) => info,
        Err(e) => return CaseOutcome::Failed(format!("the server under test can't be used: {e:?}")),
    };
    let setting = Setting { harness, info };
    match reason_not_to(case, &setting) {
        Some(reason) => CaseOutcome::NotRun(reason),
        None => judged(case, &setting).map_or_else(CaseOutcome::Failed, |()| CaseOutcome::Passed),
    }
}
