//! What follows when a server is not there.

use std::collections::BTreeSet;
use std::fmt;

use super::catalogue::{ALL, Listing};

/// The environment variable that names the servers that must be there, separated by commas.
const REQUIRE: &str = "LOCK_TEST_REQUIRE";

/// Why something that a case needs is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It needn't be: the cases that need it are reported as *not run*, with this reason.
    NotRun(String),
    /// It must be: the run fails.
    Failure(String),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::NotRun(why) | Absence::Failure(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Absence {}

/// The servers that must be there: `LOCK_TEST_REQUIRE=redis,…`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    names: BTreeSet<&'static str>,
}

impl Requirement {
    /// What the environment requires.
    pub fn from_env() -> Result<Requirement, Absence> {
        Requirement::parse(&std::env::var(REQUIRE).unwrap_or_default())
    }

    /// Reads names separated by commas. One that is not known is a failure: misspelt, it would require nothing.
    pub fn parse(list: &str) -> Result<Requirement, Absence> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names = names.map(|name| match ALL.iter().find(|listing| listing.name == name) {
            Some(listing) => Ok(listing.name),
            None => {
                let known = ALL.iter().map(|listing| listing.name).collect::<Vec<_>>().join(", ");
                Err(Absence::Failure(format!("{REQUIRE} names {name:?}; known are: {known}")))
            }
        });
        Ok(Requirement { names: names.collect::<Result<_, _>>()? })
    }

    /// What it means that this server is not there: a reason for *not run*, or a failure.
    pub fn absent(&self, listing: &Listing, why: &str) -> Absence {
        if self.names.contains(listing.name) {
            Absence::Failure(format!("{REQUIRE} requires {}, but {why}", listing.name))
        } else {
            Absence::NotRun(why.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::REDIS;
    use super::{Absence, Requirement};

    #[test]
    fn what_is_required_fails_when_absent_and_the_rest_is_not_run() {
        for list in ["redis", " redis ,", "redis,redis"] {
            let required = Requirement::parse(list).unwrap();
            assert!(
                matches!(required.absent(&REDIS, "there is none"), Absence::Failure(why) if why.contains("there is none"))
            );
        }
        for list in ["", " , "] {
            let required = Requirement::parse(list).unwrap();
            assert_eq!(required.absent(&REDIS, "there is none"), Absence::NotRun("there is none".to_owned()));
        }
    }

    #[test]
    fn a_misspelt_requirement_is_a_failure() {
        assert!(
            matches!(Requirement::parse("redis,redsi"), Err(Absence::Failure(why)) if why.contains("\"redsi\""))
        );
    }
}
