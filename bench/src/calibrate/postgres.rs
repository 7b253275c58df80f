//! sqlx on PostgreSQL with the library's own statements on one connection, against pgbench with the same statements.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_core::toolkit::Location;
use lock_core::{Owner, Random};
use lock_sql::postgres::floor::{self, Texts};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use tempfile::TempDir;
use tokio::process::Command;

use crate::Outcome;
use crate::args::Calibrate;
use crate::raw;
use crate::report::Row;
use crate::rounds::{self, Measurement, Pace};
use crate::subjects::TTL;
use crate::tally::{By, Slice};

pub(crate) async fn run(options: Calibrate) -> Outcome<()> {
    // Creates the table.
    onelock::connect(&options.on).await?;
    let cycle = Cycle::new();
    let mut measurements: Vec<Box<dyn Measurement>> = vec![Box::new(Driver {
        connection: floor::connect(raw::postgres::options(&options.on)?).await?,
        cycle: cycle.clone(),
    })];
    measurements.extend(
        Pgbench::of(&options.on, &cycle).await?.map(|pgbench| Box::new(pgbench) as Box<dyn Measurement>),
    );
    let tallies = rounds::run(&mut measurements, options.run.length(), Pace::PROGRAMS).await?;
    let format = options.run.format();
    format.head();
    for (subject, tally) in ["take and release", "pgbench"].iter().zip(&tallies) {
        let other = tallies.get(1).filter(|_| *subject != "pgbench");
        let ratio = other.and_then(|other| tally.ratio(other, By::Rate));
        format.row(&Row { ratio, ..Row::of("postgres", "driver", subject, tally) });
    }
    cycle.clean_up(&options.on).await
}

/// One lock taken and released: the statements and their values.
#[derive(Clone)]
struct Cycle {
    texts: Texts,
    name: String,
    owner: Owner,
    /// In microseconds; far enough ahead for the whole run.
    deadline: i64,
}

impl Cycle {
    fn new() -> Cycle {
        let owner = Owner::mint(&Random::system());
        let day = Duration::from_secs(24 * 3600);
        let end = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + day;
        let deadline = i64::try_from(end.as_micros()).unwrap_or(i64::MAX);
        Cycle { texts: floor::texts(), name: format!("lock-bench:{owner}"), owner, deadline }
    }

    async fn run(&self, connection: &mut PgConnection) -> Outcome<()> {
        let (name, owner) = (self.name.as_bytes(), self.owner.as_bytes().as_slice());
        let take = sqlx::query(AssertSqlSafe(self.texts.take.clone())).bind(name).bind(owner);
        let take = take.bind(TTL.as_micros() as i64).bind(self.deadline).bind(&b"lock-bench"[..]);
        take.fetch_all(&mut *connection).await?;
        let release = sqlx::query(AssertSqlSafe(self.texts.release.clone()));
        match release.bind(name).bind(owner).bind(0_i64).fetch_all(connection).await?.len() {
            1 => Ok(()),
            _ => Err("the lock was not held when it was released".into()),
        }
    }

    /// Returns the script for pgbench: the library's statements with variables in place of the parameters.
    fn script(&self) -> String {
        let statement = |text: &str| {
            (1..=5).rev().fold(text.to_owned(), |text, n| text.replace(&format!("${n}"), &format!(":p{n}")))
        };
        format!("{};\n{};\n", statement(&self.texts.take), statement(&self.texts.release))
    }

    fn variables(&self) -> [String; 5] {
        let bytes = |bytes: &[u8]| {
            bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        let (name, owner) = (bytes(self.name.as_bytes()), bytes(self.owner.as_bytes()));
        [
            format!("p1={name}"),
            format!("p2={owner}"),
            format!("p3={}", TTL.as_micros()),
            format!("p4={}", self.deadline),
            format!("p5={}", bytes(b"lock-bench")),
        ]
    }

    /// Deletes the row, which stays when its lock is released.
    async fn clean_up(&self, url: &str) -> Outcome<()> {
        let mut connection = raw::postgres::connect(url).await?;
        let delete = sqlx::query("DELETE FROM onelock_locks WHERE name = $1").bind(self.name.as_bytes());
        connection.execute(delete).await?;
        Ok(())
    }
}

struct Driver {
    connection: PgConnection,
    cycle: Cycle,
}

#[async_trait]
impl Measurement for Driver {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let (mut slice, start) = (Slice::default(), Instant::now());
        let mut began = start;
        while began - start < length {
            self.cycle.run(&mut self.connection).await?;
            let done = Instant::now();
            slice.record(done - began);
            began = done;
        }
        slice.rate = slice.latencies.len() as f64 / (began - start).as_secs_f64();
        Ok(slice)
    }
}

/// The program pgbench, with a script of the same statements.
struct Pgbench {
    server: String,
    script: PathBuf,
    variables: [String; 5],
    _folder: TempDir,
}

impl Pgbench {
    /// Returns `None` and prints the reason if pgbench can't be run here.
    async fn of(url: &str, cycle: &Cycle) -> Outcome<Option<Pgbench>> {
        let server = Location::parse(url)?.base().to_owned();
        let user = server.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
        if user.is_some_and(|(user, _)| user.contains(':')) {
            eprintln!("pgbench: not run, it would show the password in the list of processes");
            return Ok(None);
        }
        match Command::new("pgbench").arg("--version").output().await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("pgbench: not run, it is not on the PATH");
                return Ok(None);
            }
            other => other?,
        };
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("cycle.sql");
        fs::write(&script, cycle.script())?;
        Ok(Some(Pgbench { server, script, variables: cycle.variables(), _folder: folder }))
    }
}

#[async_trait]
impl Measurement for Pgbench {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let seconds = length.as_secs_f64().ceil().max(1.0).to_string();
        let mut command = Command::new("pgbench");
        command.args(["--no-vacuum", "--protocol=prepared", "--client=1", "--time", &seconds]);
        command.arg("--file").arg(&self.script);
        for variable in &self.variables {
            command.args(["--define", variable]);
        }
        let output = command.arg(&self.server).output().await?;
        let said = String::from_utf8_lossy(&output.stdout);
        let wrong = || format!("pgbench printed {said:?} {:?}", String::from_utf8_lossy(&output.stderr));
        parse(&said).ok_or_else(|| wrong().into())
    }
}

/// Reads the rate from `tps = 1234.5 (without initial connection time)`. A transaction is one run of the script.
fn parse(said: &str) -> Option<Slice> {
    let failed = said.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
    if failed.is_some_and(|failed| !failed.starts_with("0 ")) {
        return None;
    }
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    Some(Slice { rate: tps.split(' ').next()?.parse().ok()?, ..Slice::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbenchs_rate_is_found() {
        let rate = |said| parse(said).map(|slice| slice.rate);
        let said =
            "number of failed transactions: 0 (0.000%)\ntps = 1234.5 (without initial connection time)\n";
        assert_eq!(rate(said), Some(1234.5));
        assert_eq!(rate("number of failed transactions: 3 (1%)\ntps = 5.0 (x)"), None);
        assert_eq!(rate("connection failed"), None);
    }

    #[test]
    fn each_parameter_is_a_variable() {
        let (cycle, digits) = (Cycle::new(), |n| format!(":p{n}"));
        let script = cycle.script();
        assert!(!script.contains('$') && (1..=5).all(|n| script.contains(&digits(n))), "{script}");
        assert!(cycle.variables()[0].starts_with("p1=\\x6c6f636b2d62656e63683a"));
    }
}
