//! `first-lock`: a program starts, takes a lock, runs the command `true` under it, releases it and ends. It measures
//! from the start of the process to the grant, and to its end.

mod far;

use std::env;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use self::far::Far;
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
    /// The same servers, further away.
    far: Option<Far>,
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
        let far = Far::of(backend, url).await?;
        Ok(FirstLock { program, backend, url: url.to_owned(), far, name: name.to_owned() })
    }

    /// Returns the program without arguments.
    fn program(&self) -> Outcome<Command> {
        let mut command = match &self.program {
            Program::Lock(program) => Command::new(program),
            Program::Raw(_) => Command::new(env::current_exe()?),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(command)
    }

    fn command(&self, url: &str) -> Outcome<Command> {
        let mut command = self.program()?;
        command.env(URL, url);
        match &self.program {
            Program::Lock(_) => command.args(["run", "--verbose", "--name", &self.name, "--", "true"]),
            Program::Raw(prepared) => {
                command.args(["raw-run", "--name", &self.name]).env(TOLD, prepared.text()?)
            }
        };
        Ok(command)
    }

    /// Returns what the program takes to start, and to end at once.
    async fn started(&self) -> Outcome<Option<f64>> {
        let mut all = Vec::new();
        for _ in 0..STARTS {
            let mut command = self.program()?;
            let began = Instant::now();
            command.arg("--version").spawn()?.wait().await?;
            all.push(micros(began.elapsed()));
        }
        Ok(median(all))
    }

    async fn run_once(&self, url: &str) -> Outcome<Run> {
        let mut command = self.command(url)?;
        let began = Instant::now();
        let mut process = command.spawn()?;
        let said = process.stderr.take().ok_or("the process has no stderr")?;
        let (mut lines, mut other) = (BufReader::new(said).lines(), String::new());
        let mut to_grant = None;
        // It may leave a child behind, which keeps its stderr open: its end is that of the process.
        let (status, whole) = loop {
            tokio::select! {
                biased;
                Ok(Some(line)) = lines.next_line() => match says_granted(&line) {
                    true => to_grant = Some(began.elapsed()),
                    false => other.push_str(&line),
                },
                status = process.wait() => break (status?, began.elapsed()),
            }
        };
        match to_grant {
            Some(to_grant) if status.success() => Ok(Run { to_grant, whole }),
            _ => {
                if let Ok(last) = tokio::time::timeout(LAST_WORDS, lines.next_line()).await {
                    other.extend(last?);
                }
                Err(format!("the process ended with {status}: {other}").into())
            }
        }
    }

    /// Returns what the bare driver takes to connect, and for a round trip on a connection that has rested: in a program
    /// that has just started, every request finds the server asleep.
    async fn probed(&self) -> Outcome<Vec<(&'static str, f64)>> {
        let (connect, round_trip) = self.probed_at(&self.url).await?;
        let mut probed = vec![("connect_us", connect), (ROUND_TRIP, round_trip)];
        if let Some(Far { url, .. }) = &self.far {
            let (_, round_trip) = self.probed_at(url).await?;
            probed.push((FAR_ROUND_TRIP, round_trip));
        }
        Ok(probed)
    }

    async fn probed_at(&self, url: &str) -> Outcome<(f64, f64)> {
        let began = Instant::now();
        let mut probe = Probe::connect(self.backend, url).await?;
        let connected = micros(began.elapsed());
        let mut asked = Vec::new();
        for _ in 0..ROUND_TRIPS {
            tokio::time::sleep(REST).await;
            let began = Instant::now();
            probe.ask().await?;
            asked.push(micros(began.elapsed()));
        }
        Ok((connected, median(asked).ok_or("no round trip was made")?))
    }

    /// Returns the median time to the grant if the servers are further away.
    async fn run_far(&self) -> Outcome<Option<f64>> {
        let Some(Far { url, .. }) = &self.far else { return Ok(None) };
        let mut grants = Vec::new();
        for _ in 0..FAR_RUNS {
            grants.push(micros(self.run_once(url).await?.to_grant));
        }
        Ok(median(grants))
    }
}

/// How long a process that has failed may take to say why.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How often the program is started for nothing in each slice.
const STARTS: usize = 20;
const START: &str = "start_us";
/// How many round trips are timed in each slice.
const ROUND_TRIPS: usize = 20;
/// How long the connection rests before each.
const REST: Duration = Duration::from_millis(3);
const ROUND_TRIP: &str = "round_trip_us";
/// How often the program is started with the servers further away in each slice.
const FAR_RUNS: usize = 5;
/// The time to the grant there, and a round trip there.
const FAR: &str = "far_us";
const FAR_ROUND_TRIP: &str = "far_round_trip_us";

/// Whether a process has the lock, by a line of its stderr.
fn says_granted(line: &str) -> bool {
    line.strip_prefix("lock: ").unwrap_or(line).starts_with(ACQUIRED)
}

#[async_trait]
impl Measurement for FirstLock {
    /// The latency is the time to the grant. Runs the program at least once.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let (mut slice, mut wholes) = (Slice::default(), Vec::new());
        if let Program::Raw(_) = self.program {
            slice.extra = self.probed().await?;
        }
        slice.extra.extend(self.started().await?.map(|start| (START, start)));
        let began = Instant::now();
        loop {
            let Run { to_grant, whole } = self.run_once(&self.url).await?;
            slice.record(to_grant);
            wholes.push(micros(whole));
            if began.elapsed() >= length {
                break;
            }
        }
        slice.rate = wholes.len() as f64 / began.elapsed().as_secs_f64();
        slice.extra.extend(median(wholes).map(|whole| ("whole_us", whole)));
        slice.extra.extend(self.run_far().await?.map(|far| (FAR, far)));
        Ok(slice)
    }
}

/// Returns by how many of the server's round trips the program takes longer to its grant than the raw driver's.
///
/// If they were measured with the servers further away, too, it is how often the program waits for the network more
/// than the raw driver's: what a program computes takes as long there. Otherwise it is the time, in round trips.
pub(crate) fn round_trips_more(ours: &Tally, raw: &Tally) -> Option<f64> {
    waits_more(ours, raw).or_else(|| takes_longer(ours, raw))
}

fn waits_more(ours: &Tally, raw: &Tally) -> Option<f64> {
    let waits = |tally: &Tally| Some(tally.extra().get(FAR)? - tally.percentile(50.0)? / 1e3);
    let more = (waits(ours)? - waits(raw)?) / raw.extra().get(FAR_ROUND_TRIP)?;
    // Not -0.
    Some(more.round() + 0.0)
}

/// What each of the two programs takes to start is left out: they are not of the same size.
fn takes_longer(ours: &Tally, raw: &Tally) -> Option<f64> {
    let start = |tally: &Tally| tally.extra().get(START).copied();
    let (start, round_trip) = (start(ours)? - start(raw)?, *raw.extra().get(ROUND_TRIP)?);
    let micros = |p50: Option<f64>| p50.map(|nanos| nanos / 1e3);
    let rounds = ours.rounds().iter().zip(raw.rounds());
    let more = rounds.filter_map(|(ours, raw)| Some(micros(ours.p50)? - micros(raw.p50)? - start));
    Some(median(more.collect())? / round_trip)
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rounds: &[u64], extra: &[(&'static str, f64)]) -> Tally {
        let mut tally = Tally::default();
        for micros in rounds {
            tally.add(Slice { latencies: vec![micros * 1_000], extra: extra.to_vec(), ..Slice::default() });
        }
        tally
    }

    #[test]
    fn with_servers_further_away_only_waiting_counts() {
        let raw = tally(
            &[2_000],
            &[(START, 100.0), (ROUND_TRIP, 50.0), (FAR, 32_000.0), (FAR_ROUND_TRIP, 12_000.0)],
        );
        let ours = |near, far| round_trips_more(&tally(&[near], &[(START, 100.0), (FAR, far)]), &raw);
        assert_eq!(
            ours(3_000, 33_000.0),
            Some(0.0),
            "it computes for a millisecond more, which is no round trip"
        );
        assert_eq!(ours(3_000, 45_500.0), Some(1.0));
        assert_eq!(ours(2_000, 55_500.0), Some(2.0));
    }

    #[test]
    fn what_is_more_is_counted_in_round_trips() {
        let raw = tally(&[1_000, 1_200, 1_000], &[(ROUND_TRIP, 50.0), (START, 400.0)]);
        // In the second round, both were disturbed.
        let ours = tally(&[1_100, 9_000, 1_090], &[(START, 400.0)]);
        assert_eq!(round_trips_more(&ours, &raw), Some(2.0));
        let quicker_to_start = tally(&[1_100, 9_000, 1_090], &[(START, 350.0)]);
        assert_eq!(round_trips_more(&quicker_to_start, &raw), Some(3.0));
        assert_eq!(round_trips_more(&raw, &ours), None, "there is no round trip to count in");
    }

    #[test]
    fn a_grant_is_what_either_program_says_of_it() {
        for line in ["acquired", "lock: acquired \"n\" on redis 127.0.0.1:6379 with token 7 after 1.2ms"] {
            assert!(says_granted(line), "{line}");
        }
        assert!(!says_granted("lock: \"acquired\" is held by another client"));
    }
}
