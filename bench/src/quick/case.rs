//! A workload with its parameters.

use std::collections::BTreeMap;
use std::fmt;

use crate::args::Quick;
use crate::backend::Backend;
use crate::workload::Workload;

/// A workload with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// One that has none.
    Of(Workload),
    Held {
        locks: usize,
    },
    Crowd {
        tasks: usize,
    },
}

/// How many locks are held on every backend, unless the command line says it.
const LOCKS: usize = 10_000;
/// How many are held where that takes no more than seconds.
const MANY_LOCKS: usize = 100_000;

impl Case {
    /// Returns what is measured of a workload on such a backend, one after the other.
    pub(super) fn all_of(workload: Workload, backend: Backend, options: &Quick) -> Vec<Case> {
        let locks = match (&options.locks[..], backend) {
            ([], Backend::Memory | Backend::Redis) => &[LOCKS, MANY_LOCKS][..],
            ([], _) => &[LOCKS],
            (asked, _) => asked,
        };
        match workload {
            Workload::Held => locks.iter().map(|&locks| Case::Held { locks }).collect(),
            Workload::Crowd => vec![Case::Crowd { tasks: options.tasks }],
            without => vec![Case::Of(without)],
        }
    }

    pub(super) fn workload(self) -> Workload {
        match self {
            Case::Of(workload) => workload,
            Case::Held { .. } => Workload::Held,
            Case::Crowd { .. } => Workload::Crowd,
        }
    }

    /// Returns the parameters by their names in a row.
    pub(super) fn parameters(self) -> BTreeMap<String, u64> {
        let parameter = match self {
            Case::Of(_) => None,
            Case::Held { locks } => Some(("locks", locks)),
            Case::Crowd { tasks } => Some(("tasks", tasks)),
        };
        parameter.map(|(name, value)| (name.to_owned(), value as u64)).into_iter().collect()
    }
}

impl fmt::Display for Case {
    /// `held locks=10000`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.workload().as_str())?;
        self.parameters().iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn cases(arguments: &[&str], workload: Workload, backend: Backend) -> Vec<String> {
        let arguments = ["lock-bench", "quick"].iter().chain(arguments);
        let Command::Quick(options) = Args::parse_from(arguments).command else { panic!("it is quick") };
        Case::all_of(workload, backend, &options).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn most_locks_are_held_where_it_takes_the_shortest_time() {
        let held = |arguments: &[&str], backend| cases(arguments, Workload::Held, backend);
        assert_eq!(held(&[], Backend::Redis), ["held locks=10000", "held locks=100000"]);
        assert_eq!(held(&[], Backend::Etcd), ["held locks=10000"]);
        assert_eq!(held(&["--locks", "7"], Backend::Redis), ["held locks=7"]);
        assert_eq!(held(&["--locks", "7", "--locks", "8"], Backend::Etcd), ["held locks=7", "held locks=8"]);
    }

    #[test]
    fn a_workload_without_parameters_is_called_as_it_is() {
        assert_eq!(cases(&[], Workload::OneName, Backend::Redis), ["one-name"]);
        assert_eq!(cases(&["--tasks", "500"], Workload::Crowd, Backend::Redis), ["crowd tasks=500"]);
    }
}
