//! The consequences of a missing server.

use std::collections::BTreeSet;

use lock_conformance::{Verdict, record};

use super::catalogue::{self, Listing};

/// The environment variable that names the servers, the clients of other libraries and the abilities of the machine
/// that must be there, separated by commas.
const REQUIRE: &str = "LOCK_TEST_REQUIRE";

/// Why something that a case needs is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absence {
    /// It is not required: the cases that need it are reported as *not run*, with this reason.
    #[error("{0}")]
    NotRun(String),
    /// It is required: the run fails.
    #[error("{0}")]
    Failure(String),
}

impl Absence {
    /// Returns the reason for *not run*.
    ///
    /// # Panics
    ///
    /// If it is a failure.
    #[track_caller]
    pub fn reason(self) -> String {
        match self {
            Absence::NotRun(why) => why,
            Absence::Failure(why) => panic!("{why}"),
        }
    }

    /// Reports that the suite was not run on `backend`, or that it has failed.
    pub fn verdict(self, backend: &str) -> Verdict {
        match self {
            Absence::NotRun(why) => lock_conformance::not_run(backend, &why),
            Absence::Failure(why) => lock_conformance::failed(backend, &why),
        }
    }
}

/// Why a source gives no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoServer {
    /// It has none. The next source may have one.
    #[error("{0}")]
    Absent(String),
    /// It has one, which fails.
    #[error("{0}")]
    Failed(String),
}

/// The names that are required: `LOCK_TEST_REQUIRE=redis,…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    names: BTreeSet<&'static str>,
}

impl Requirement {
    /// Reads what the environment requires.
    ///
    /// # Errors
    ///
    /// If it requires a name that is not known.
    pub fn from_env() -> Result<Requirement, Absence> {
        Requirement::parse(&std::env::var(REQUIRE).unwrap_or_default())
    }

    /// Reads names separated by commas.
    ///
    /// # Errors
    ///
    /// If a name is not known: a misspelt name would require nothing.
    pub fn parse(list: &str) -> Result<Requirement, Absence> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names = names.map(|name| match known().find(|known| *known == name) {
            Some(name) => Ok(name),
            None => {
                let known = known().collect::<Vec<_>>().join(", ");
                Err(Absence::Failure(format!("{REQUIRE} names {name:?}; known are: {known}")))
            }
        });
        Ok(Requirement { names: names.collect::<Result<_, _>>()? })
    }

    /// Returns what follows from the absence of `name`: a reason for *not run*, or a failure.
    pub fn absent(&self, name: &str, why: &str) -> Absence {
        let absence = self.judge_name(name, why);
        if let Absence::NotRun(why) = &absence {
            record::absent(name, why);
        }
        absence
    }

    fn judge_name(&self, name: &str, why: &str) -> Absence {
        match self.names.contains(name) {
            true => Absence::Failure(format!("{REQUIRE} requires {name}, but {why}")),
            false => Absence::NotRun(why.to_owned()),
        }
    }

    /// Returns what follows if the last source has no server.
    pub(super) fn judge(&self, listing: &Listing, no_server: NoServer) -> Absence {
        match no_server {
            NoServer::Absent(why) => self.absent(listing.name, &why),
            NoServer::Failed(why) => Absence::Failure(why),
        }
    }
}

/// Returns all known names.
fn known() -> impl Iterator<Item = &'static str> {
    let servers = catalogue::ALL.iter().map(|listing| listing.name);
    servers.chain(catalogue::CLIENTS.iter().copied()).chain(catalogue::ABILITIES.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::{Absence, Requirement};

    #[test]
    fn an_absent_requirement_fails() {
        for list in ["redis", " redis ,", "redis,redis"] {
            let required = Requirement::parse(list).unwrap();
            assert!(
                matches!(required.judge_name("redis", "there is none"), Absence::Failure(why) if why.contains("there is none"))
            );
        }
        for list in ["", " , "] {
            let required = Requirement::parse(list).unwrap();
            assert_eq!(
                required.judge_name("redis", "there is none"),
                Absence::NotRun("there is none".to_owned())
            );
        }
    }

    #[test]
    fn a_misspelt_requirement_is_a_failure() {
        assert!(
            matches!(Requirement::parse("redis,redsi"), Err(Absence::Failure(why)) if why.contains("\"redsi\""))
        );
    }
}
