//! The judges: programs that may notice a planted bug.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bounded::{self, End};
use super::output::{Built, executable, failed_tests, passed_tests, tail, violation, without_json};
use super::scratch::Scratch;

/// A test program, or the simulation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Judge {
    /// The name in the heads of patches and in the table.
    pub(crate) name: &'static str,
    /// Cargo's arguments that select the program.
    target: &'static [&'static str],
    kind: Kind,
    /// The package of a program that it starts.
    starts: Option<&'static str>,
    /// The folders of the packages whose bugs it could notice.
    sees: &'static [&'static str],
    /// What the program puts before each case's name, if it tests more than one server.
    within: &'static str,
    /// Where its cases are written: the beginning of a path, to which a case's topic is added.
    pub(crate) source: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tests,
    /// The conformance suite, on one backend.
    Suite,
    /// The simulation, in batches of histories: most bugs show in the first.
    Simulation {
        /// `None` means that the core's two families take turns.
        family: Option<&'static str>,
        batches: &'static [u64],
    },
}

/// All judges, the quickest first.
pub(crate) const ALL: &[Judge] = &[
    tests("units of lock-core", &["-p", "lock-core", "--lib"], &["lock-core"], "lock-core/src/"),
    tests("life", &["-p", "lock-core", "--test", "life"], &["lock-core"], "lock-core/tests/life/"),
    tests("values", &["-p", "lock-core", "--test", "values"], &["lock-core"], "lock-core/tests/values"),
    tests("runtimes", &["-p", "lock-core", "--test", "runtimes"], &["lock-core"], "lock-core/tests/runtimes"),
    tests(
        "lease server",
        &["-p", "lock-memory", "--test", "lease_server"],
        MEMORY,
        "lock-memory/tests/lease_server",
    ),
    tests(
        "queue server",
        &["-p", "lock-memory", "--test", "queue_server"],
        MEMORY,
        "lock-memory/tests/queue_server",
    ),
    tests(
        "register server",
        &["-p", "lock-memory", "--test", "register_server"],
        MEMORY,
        "lock-memory/tests/register_server",
    ),
    tests(
        "late messages",
        &["-p", "lock-memory", "--test", "late_messages"],
        BOTH,
        "lock-memory/tests/late_messages",
    ),
    tests("clients", &["-p", "lock-memory", "--test", "clients"], BOTH, "lock-memory/tests/clients"),
    tests("paused", &["-p", "lock-memory", "--test", "paused"], BOTH, "lock-memory/tests/paused"),
    tests("units of lock-redis", &["-p", "lock-redis", "--lib"], &["lock-redis"], "lock-redis/src/"),
    tests("units of lock-redlock", &["-p", "lock-redlock", "--lib"], &["lock-redlock"], "lock-redlock/src/"),
    // Together these are more histories than CI plays.
    simulation("simulation", Kind::Simulation { family: None, batches: &[150, 850, 2000] }, BOTH),
    simulation(
        "register simulation",
        Kind::Simulation { family: Some("register"), batches: &[150, 850] },
        BOTH,
    ),
    tests("redis", &["-p", "lock-redis", "--test", "redis"], &["lock-redis"], "lock-redis/tests/redis/"),
    tests(
        "redis interop",
        &["-p", "lock-redis", "--test", "interop"],
        &["lock-redis"],
        "conformance/foreign/src/",
    ),
    tests(
        "units of lock-sql",
        &["-p", "lock-sql", "--features", "mysql,postgres,tls", "--lib"],
        &["lock-sql"],
        "lock-sql/src/",
    ),
    tests("sqlite", &["-p", "lock-sql", "--test", "sqlite"], &["lock-sql"], "lock-sql/tests/sqlite/"),
    Judge {
        within: "mariadb::",
        ..tests(
            "mysql",
            &["-p", "lock-sql", "--features", "mysql,tls", "--test", "mysql"],
            &["lock-sql"],
            "lock-sql/tests/mysql/",
        )
    },
    tests(
        "postgres",
        &["-p", "lock-sql", "--features", "postgres,tls", "--test", "postgres"],
        &["lock-sql"],
        "lock-sql/tests/postgres/",
    ),
    Judge {
        name: "machine",
        target: &["-p", "lock-sql", "--test", "machine"],
        kind: Kind::Tests,
        starts: Some("lock-cli"),
        sees: &["lock-sql"],
        within: "",
        source: "lock-sql/tests/machine",
    },
    // A history of Redlock takes ten times as long.
    simulation(
        "redlock simulation",
        Kind::Simulation { family: Some("redlock"), batches: &[60, 140] },
        &["lock-redlock", "conformance/simulation"],
    ),
    tests(
        "redlock",
        &["-p", "lock-redlock", "--test", "redlock"],
        &["lock-redlock"],
        "lock-redlock/tests/redlock/",
    ),
    tests("units of lock-mongo", &["-p", "lock-mongo", "--lib"], &["lock-mongo"], "lock-mongo/src/"),
    tests("mongo", &["-p", "lock-mongo", "--test", "mongo"], &["lock-mongo"], "lock-mongo/tests/mongo/"),
    tests("units of lock-zk", &["-p", "lock-zk", "--lib"], &["lock-zk"], "lock-zk/src/"),
    tests("zk", &["-p", "lock-zk", "--test", "zk"], &["lock-zk"], "lock-zk/tests/zk/"),
    tests("zk interop", &["-p", "lock-zk", "--test", "interop"], &["lock-zk"], "conformance/foreign/src/"),
    tests("units of lock-etcd", &["-p", "lock-etcd", "--lib"], &["lock-etcd"], "lock-etcd/src/"),
    tests("etcd", &["-p", "lock-etcd", "--test", "etcd"], &["lock-etcd"], "lock-etcd/tests/etcd/"),
    tests("units of lock-cli", &["-p", "lock-cli", "--bin", "lock"], &["lock-cli"], "lock-cli/src/"),
    tests("program", &["-p", "lock-cli", "--test", "run"], &["lock-cli"], "lock-cli/tests/run/"),
    suite("memory suite", &["-p", "lock-memory", "--test", "conformance"], BOTH),
    suite("sqlite suite", &["-p", "lock-sql", "--test", "conformance"], &["lock-sql"]),
    suite(
        "mariadb suite",
        &["-p", "lock-sql", "--features", "mysql,tls", "--test", "conformance_mariadb"],
        &["lock-sql"],
    ),
    suite(
        "postgres suite",
        &["-p", "lock-sql", "--features", "postgres,tls", "--test", "conformance_postgres"],
        &["lock-sql"],
    ),
    suite("redis suite", &["-p", "lock-redis", "--test", "conformance"], &["lock-core", "lock-redis"]),
    suite("fair suite", &["-p", "lock-redis", "--test", "conformance_fair"], &["lock-redis"]),
    suite("redisson suite", &["-p", "lock-redis", "--test", "conformance_redisson"], &["lock-redis"]),
    suite_with_program("sqlite processes", &["-p", "lock-sql", "--test", "conformance"]),
    suite_with_program("redis processes", &["-p", "lock-redis", "--test", "conformance"]),
    suite("redlock suite", &["-p", "lock-redlock", "--test", "conformance"], &["lock-redlock"]),
    suite("etcd suite", &["-p", "lock-etcd", "--test", "conformance"], &["lock-etcd"]),
    suite("zookeeper suite", &["-p", "lock-zk", "--test", "conformance"], &["lock-zk"]),
    suite("mongodb suite", &["-p", "lock-mongo", "--test", "conformance"], &["lock-mongo"]),
    suite(
        "standalone mongodb suite",
        &["-p", "lock-mongo", "--test", "conformance_standalone"],
        &["lock-mongo"],
    ),
];

const MEMORY: &[&str] = &["lock-memory"];
const BOTH: &[&str] = &["lock-core", "lock-memory"];

const fn tests(
    name: &'static str,
    target: &'static [&'static str],
    sees: &'static [&'static str],
    source: &'static str,
) -> Judge {
    Judge { name, target, kind: Kind::Tests, starts: None, sees, within: "", source }
}

const fn simulation(name: &'static str, kind: Kind, sees: &'static [&'static str]) -> Judge {
    let target = &["-p", "lock-simulation", "--bin", "lock-simulation"];
    Judge { kind, ..tests(name, target, sees, "conformance/simulation/src/") }
}

const fn suite(name: &'static str, target: &'static [&'static str], sees: &'static [&'static str]) -> Judge {
    Judge { kind: Kind::Suite, ..tests(name, target, sees, "conformance/suite/src/cases/") }
}

/// The suite with the cases that start the program `lock`.
const fn suite_with_program(name: &'static str, target: &'static [&'static str]) -> Judge {
    let suite = suite(name, target, &["lock-cli"]);
    Judge { starts: Some("lock-cli"), ..suite }
}

/// How long the build of a program may take, from nothing.
const LONGEST_BUILD: Duration = Duration::from_secs(1200);
/// How long a whole suite may take: several times what it usually takes.
const LONGEST_SUITE: Duration = Duration::from_secs(180);
/// How long any other test program, or a batch of histories, may take. The tests of the program `lock` take a minute.
const LONGEST_RUN: Duration = Duration::from_secs(180);
/// How long one case may take: the suite ends a case that hangs after 60 s, a backend's own tests after 120 s.
const LONGEST_CASE: Duration = Duration::from_secs(150);

/// The answer of a judge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// So many cases or histories ran, and none failed.
    Well(u64),
    /// The simulation found a violation: the invariant and the seed.
    Broken(String),
    /// These cases failed.
    Failed(Vec<String>),
    /// It did not end.
    Hangs,
}

impl Judge {
    /// Returns whether it could notice a bug in this file.
    pub(crate) fn sees(&self, file: &str) -> bool {
        let is_in = |package: &str| file.strip_prefix(package).is_some_and(|rest| rest.starts_with('/'));
        self.sees.iter().any(|package| is_in(package))
    }

    /// Builds the program in the scratch copy, and returns its path.
    pub(crate) fn build(&self, scratch: &Scratch) -> Result<PathBuf, String> {
        if let Some(package) = self.starts {
            let mut cargo = scratch.cargo("build", &["--quiet", "-p", package]);
            let ended = bounded::run(&mut cargo, LONGEST_BUILD, scratch.output())?;
            if ended.end != End::Success {
                return Err(format!("{package} can't be built:\n{}", tail(&ended.output)));
            }
        }
        let (mut cargo, built) = match self.kind {
            Kind::Tests | Kind::Suite => (scratch.cargo("test", &["--no-run"]), Built::Tests),
            Kind::Simulation { .. } => (scratch.cargo("build", &[]), Built::Program),
        };
        cargo.args(["--quiet", "--message-format", "json-render-diagnostics"]).args(self.target);
        let ended = bounded::run(&mut cargo, LONGEST_BUILD, scratch.output())?;
        match (ended.end, executable(&ended.output, built)) {
            (End::Success, Some(program)) => Ok(program),
            (End::TimedOut, _) => Err(format!("building {} took more than {LONGEST_BUILD:?}", self.name)),
            _ => Err(format!("{} can't be built:\n{}", self.name, tail(&without_json(&ended.output)))),
        }
    }

    /// Runs the program in the scratch copy. `Err` if its output says nothing about the cases.
    pub(crate) fn ask(
        &self,
        scratch: &Scratch,
        program: &Path,
        case: Option<&str>,
    ) -> Result<Finding, String> {
        match self.kind {
            Kind::Tests | Kind::Suite => self.ask_tests(scratch, program, case),
            Kind::Simulation { family, batches } => self.ask_simulation(scratch, program, family, batches),
        }
    }

    fn ask_tests(&self, scratch: &Scratch, program: &Path, case: Option<&str>) -> Result<Finding, String> {
        let mut command = scratch.program(program);
        let exactly = case.map(|case| format!("{}{case}", self.within));
        // A case's name may begin like an option: "--no-wait gives 75 …".
        command.args(exactly.iter().flat_map(|case| ["--exact", "--", case]));
        let limit = match case {
            Some(_) => LONGEST_CASE,
            None if self.kind == Kind::Suite => LONGEST_SUITE,
            None => LONGEST_RUN,
        };
        let ended = bounded::run(&mut command, limit, scratch.output())?;
        let failed = failed_tests(&ended.output);
        match (ended.end, failed.as_slice()) {
            (End::TimedOut, _) => Ok(Finding::Hangs),
            (End::Success, _) => match passed_tests(&ended.output) {
                0 => Err(format!("no such case was run:\n{}", tail(&ended.output))),
                ran => Ok(Finding::Well(ran)),
            },
            (End::Failure, []) => Err(format!("{} gave no result:\n{}", self.name, tail(&ended.output))),
            (End::Failure, cases) => {
                let plain = |case: &&str| case.strip_prefix(self.within).unwrap_or(case).to_owned();
                Ok(Finding::Failed(cases.iter().map(plain).collect()))
            }
        }
    }

    fn ask_simulation(
        &self,
        scratch: &Scratch,
        program: &Path,
        family: Option<&str>,
        batches: &[u64],
    ) -> Result<Finding, String> {
        let mut seed = 0;
        for histories in batches {
            let mut command = scratch.program(program);
            command.args(["sim", "--histories", &histories.to_string(), "--seed", &seed.to_string()]);
            command.args(family.iter().flat_map(|family| ["--family", family]));
            let ended = bounded::run(&mut command, LONGEST_RUN, scratch.output())?;
            match (ended.end, violation(&ended.output)) {
                (End::Success, _) => seed += histories,
                (End::TimedOut, _) => return Ok(Finding::Hangs),
                (End::Failure, Some(violation)) => return Ok(Finding::Broken(violation)),
                (End::Failure, None) => {
                    return Err(format!("{} gave no result:\n{}", self.name, tail(&ended.output)));
                }
            }
        }
        Ok(Finding::Well(seed))
    }
}
