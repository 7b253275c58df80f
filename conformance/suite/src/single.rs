//! Single cases, for tests that compare what becomes of a case with what should: of drivers with known flaws, for example.

use std::sync::Arc;

use lock_core::Options;

use crate::cases;
use crate::harness::Harness;
use crate::runner::{judged, reason_not_to};
use crate::runtime::block_on;
use crate::setting::Setting;

/// What became of a case.
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use lock_core::{Client, Result};
    use lock_memory::Memory;

    use super::*;

    /// A server in this process, or none.
    #[derive(Debug)]
    struct OnMemory(Option<Memory>);

    #[async_trait]
    impl Harness for OnMemory {
        fn name(&self) -> String {
            "memory".to_owned()
        }

        async fn open(&self, options: Options) -> Result<Client> {
            match &self.0 {
                Some(memory) => memory.client_with(options).await,
                None => Err(lock_core::Error::rejected("it is gone")),
            }
        }
    }

    fn outcome(memory: Option<Memory>, name: &str) -> CaseOutcome {
        run_case(Arc::new(OnMemory(memory)), name)
    }

    #[test]
    fn a_case_passes_fails_or_is_not_run() {
        let held = "contract::a_free_lock_is_granted_and_a_held_one_busy";
        assert_eq!(outcome(Some(Memory::new()), held), CaseOutcome::Passed);
        let failed = outcome(None, held);
        assert!(matches!(&failed, CaseOutcome::Failed(why) if why.contains("it is gone")), "{failed:?}");
        let not_run = outcome(Some(Memory::new()), "contract::release_never_touches_anothers");
        let unable = "this harness cannot make the server forget a holder";
        assert_eq!(not_run, CaseOutcome::NotRun(unable.to_owned()));
    }

    #[test]
    #[should_panic(expected = "there is no case contract::nothing")]
    fn a_name_that_no_case_has_is_a_mistake() {
        outcome(Some(Memory::new()), "contract::nothing");
    }
}
