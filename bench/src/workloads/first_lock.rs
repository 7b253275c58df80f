//! `first-lock`: a program starts, takes a lock, runs the command `true` under it, releases it and ends. It measures
//! from the start of the process to the grant, and to its end.

use std::env;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStderr, Command};

use crate::Outcome;
use crate::backend::Backend;
use crate::raw::probe::Probe;
use crate::rounds::Measurement;
use crate::subjects::{Kind, Preparation, prepare};
use crate::tally::{Slice, Tally, median};
use crate::workloads::raw_run::{ACQUIRED, TOLD, URL};

/// The program `lock` of the same build, which lies beside this one; or why it can't be measured.
pub(crate) fn lock_program() -> Result<PathBuf, &'static str> {
    if cfg!(not(unix)) {
        return Err("this system has no command `true`");
    }
    let own = env::current_exe().map_err(|_| "this program doesn't know where it is")?;
    let program = own.with_file_name(format!("lock{}", env::consts::EXE_SUFFIX));
    match program.is_file() {
        true => Ok(program),
        false => Err("the program lock is not beside lock-bench: build it with cargo build -p lock-cli"),
    }
}

/// One program that is started again and again.
pub(crate) struct FirstLock {
    program: Program,
    backend: Backend,
    url: String,
    name: String,
}

enum Program {
    Lock(PathBuf),
    /// This program, with the raw driver.
    Raw(Preparation),
}

/// How long a process took.
#[derive(Clone, Copy, Debug)]
struct Run {
    to_grant: Duration,
    whole: Duration,
}

impl FirstLock {
    /// Prepares the program `lock`, or, as the floor, the raw driver's process.
    pub(crate) async fn new(kind: Kind, backend: Backend, url: &str, name: &str) -> Outcome<FirstLock> {
        let prepared = prepare(url, name).await?;
        let program = match kind {
            Kind::Ours => Program::Lock(lock_program()?),
            _ => Program::Raw(prepared),
        };
        Ok(FirstLock { program, backend, url: url.to_owned(), name: name.to_owned() })
    }

    fn command(&self) -> Outcome<Command> {
        let mut command = match &self.program {
            Program::Lock(program) => {
                let mut command = Command::new(program);
                command.args(["run", "--verbose", "--name", &self.name, "--", "true"]);
                command
            }
            Program::Raw(prepared) => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["raw-run", "--name", &self.name]).env(TOLD, prepared.text()?);
                command
            }
        };
        command.env(URL, &self.url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        Ok(command)
    }

    async fn run_once(&self) -> Outcome<Run> {
        let mut command = self.command()?;
        let began = Instant::now();
        let mut process = command.spawn()?;
        let said = process.stderr.take().ok_or("the process has no stderr")?;
        let ending = async {
            let status = process.wait().await;
            (status, began.elapsed())
        };
        let (heard, (status, whole)) = tokio::join!(hear(said, began), ending);
        match (heard?, status?) {
            (Heard { to_grant: Some(to_grant), .. }, status) if status.success() => {
                Ok(Run { to_grant, whole })
            }
            (Heard { other, .. }, status) => Err(format!("the process ended with {status}: {other}").into()),
        }
    }

    /// Returns what the bare driver takes to connect, and for a round trip.
    async fn probed(&self) -> Outcome<Vec<(&'static str, f64)>> {
        let began = Instant::now();
        let mut probe = Probe::connect(self.backend, &self.url).await?;
        let connected = began.elapsed();
        let mut asked = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let began = Instant::now();
            probe.ask().await?;
            asked.push(micros(began.elapsed()));
        }
        let round_trip = median(asked).ok_or("no round trip was made")?;
        Ok(vec![("connect_us", micros(connected)), (ROUND_TRIP, round_trip)])
    }
}

/// How many round trips are timed in each slice.
const ROUND_TRIPS: usize = 20;
const ROUND_TRIP: &str = "round_trip_us";

/// What a process said on stderr.
struct Heard {
    to_grant: Option<Duration>,
    /// All but the grant.
    other: String,
}

/// Listens until the process and its children have closed their stderr.
async fn hear(said: ChildStderr, began: Instant) -> Outcome<Heard> {
    let (mut lines, mut heard) =
        (BufReader::new(said).lines(), Heard { to_grant: None, other: String::new() });
    while let Some(line) = lines.next_line().await? {
        match line.strip_prefix("lock: ").unwrap_or(&line).starts_with(ACQUIRED) {
            true => heard.to_grant = Some(began.elapsed()),
            false => heard.other.push_str(&format!("{line} ")),
        }
    }
    Ok(heard)
}

#[async_trait]
impl Measurement for FirstLock {
    /// The latency is the time to the grant. Runs the program at least once.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let (mut slice, mut wholes) = (Slice::default(), Vec::new());
        if let Program::Raw(_) = self.program {
            slice.extra = self.probed().await?;
        }
        let began = Instant::now();
        loop {
            let Run { to_grant, whole } = self.run_once().await?;
            slice.record(to_grant);
            wholes.push(micros(whole));
            if began.elapsed() >= length {
                break;
            }
        }
        slice.rate = wholes.len() as f64 / began.elapsed().as_secs_f64();
        slice.extra.extend(median(wholes).map(|whole| ("whole_us", whole)));
        Ok(slice)
    }
}

/// Returns by how many of the server's round trips the program takes longer to its grant than the raw driver's.
pub(crate) fn round_trips_more(ours: &Tally, raw: &Tally) -> Option<f64> {
    let round_trip = *raw.extra().get(ROUND_TRIP)?;
    let more = |(ours, raw): (Option<f64>, Option<f64>)| Some((ours? - raw?) / 1e3 / round_trip);
    let p50s = ours.rounds().iter().zip(raw.rounds()).map(|(ours, raw)| (ours.p50, raw.p50));
    median(p50s.filter_map(more).collect())
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_is_counted_in_round_trips() {
        let tally = |rounds: &[u64], extra: &[(&'static str, f64)]| {
            let mut tally = Tally::default();
            for micros in rounds {
                tally.add(Slice {
                    latencies: vec![micros * 1_000],
                    extra: extra.to_vec(),
                    ..Slice::default()
                });
            }
            tally
        };
        let raw = tally(&[1_000, 1_200, 1_000], &[(ROUND_TRIP, 50.0)]);
        // In the second round, both were disturbed.
        let ours = tally(&[1_100, 9_000, 1_090], &[]);
        assert_eq!(round_trips_more(&ours, &raw), Some(2.0));
        assert_eq!(round_trips_more(&raw, &ours), None, "there is no round trip to count in");
    }
}
