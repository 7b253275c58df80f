//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, Parser, Subcommand};

use onelock::parse_duration;

use crate::compare::workload;
use crate::forms;
use crate::report::Format;
use crate::subjects::Kind;
use crate::workload::Workload;
use crate::workloads::crowd;

/// Compares the library with its drivers' floors and with peers.
#[derive(Debug, Parser)]
#[command(name = "lock-bench", version)]
pub(crate) struct Args {
    /// How many threads the measured tasks run on; bench/README.md says what more than one of them measure
    #[arg(long, global = true, value_name = "N", default_value_t = 1, value_parser = at_least_one)]
    pub(crate) threads: usize,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measures every workload once, on every backend there is or on those that are named.
    #[command(after_help = RATIOS)]
    Quick(Quick),
    /// Measures every workload on every server, and writes a report from which to choose a backend.
    Compare(Compare),
    /// Makes report.html anew from the report.json of an earlier run of `compare`.
    Page(Page),
    /// Makes docs/compare and the README's table of figures from an earlier run of `compare`.
    Publish(Publish),
    /// Measures what each form of a backend (Redisson's layout, a fair lock) costs beside its plain form, on one server.
    Forms(Forms),
    /// Holds many locks at once and does nothing else; reports what that costs, and whether a lock was lost.
    Hold(Hold),
    /// Plays the documents' argument about Redlock on five real servers: what goes wrong, and what harm it does.
    Argue(Argue),
    /// Compares the raw driver with the server's own benchmark program, at one connection.
    Calibrate(Calibrate),
    /// Prints what has changed between two files that `quick --json` has written, as a table in Markdown.
    Measured(Measured),
    /// The other process of a workload such as `hand-over`.
    #[command(hide = true)]
    HandOverSide,
    /// The raw driver's process of `first-lock`.
    #[command(hide = true)]
    RawRun(RawRun),
    /// The process that tries claims for `compare`.
    #[command(hide = true)]
    PlayClaims,
}

#[derive(Debug, Group)]
pub(crate) struct Quick {
    /// A server's URL, or the name of a kind: redis, mysql, …; may be given more than once. For a name, a server of
    /// that kind is started for the measurement, and for redis-durable, mysql-durable, … one that writes to the disk
    /// before it acknowledges; without this option, one of each that this machine has
    #[arg(long, value_name = "URL|NAME")]
    pub(crate) on: Vec<String>,
    /// Every server that is started writes to the disk before it acknowledges
    #[arg(long)]
    pub(crate) durable: bool,
    #[command(flatten)]
    pub(crate) run: Run,
    /// Only this workload; may be given more than once
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<Workload>,
    /// Only this subject, for a profile of it; may be given more than once
    #[arg(long = "subject", value_name = "SUBJECT")]
    pub(crate) subjects: Vec<Kind>,
    /// How many locks `held` holds; may be given more than once. Default: 10,000, and on memory and Redis also 100,000
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) locks: Vec<usize>,
    /// How many tasks of `crowd` wait
    #[arg(long, value_name = "N", default_value_t = crowd::TASKS, value_parser = at_least_one)]
    pub(crate) tasks: usize,
}

#[derive(Debug, Group)]
pub(crate) struct Measured {
    /// The file of the run before a change
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The file of the run after it
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
}

#[derive(Debug, Group)]
pub(crate) struct RawRun {
    /// The lock's name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Default, Group)]
pub(crate) struct Compare {
    /// A server's URL, or the name of a kind: redis, mysql, …; may be given more than once. For a name, a server of
    /// that kind is started for the measurement, and for redis-durable, mysql-durable, … one that writes to the disk
    /// before it acknowledges; without this option, one of each that this machine has
    #[arg(long, value_name = "URL|NAME")]
    pub(crate) on: Vec<String>,
    /// Shorter, and fewer workloads: all servers within ten minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// The folder of the run: report.json, report.html, and what is needed to continue the run. Default: a new folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the report instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this workload; may be given more than once
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<workload::Workload>,
    /// Measure other libraries' locks in the same run, too; `cargo xtask peers` builds those that are not in Rust
    #[arg(long)]
    pub(crate) peers: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Forms {
    /// The plain form: a server's URL, or the name of a kind, of which a server is started for the measurement
    #[arg(long, value_name = "URL|NAME", default_value = "redis")]
    pub(crate) on: String,
    /// The parameters that make a form of the URL: 'fair=true&grace=2s'; may be given more than once. Without this
    /// option, Redisson's layout, the same with RFencedLock's tokens, and fair locks
    #[arg(long = "form", value_name = "PARAMETERS")]
    pub(crate) forms: Vec<String>,
    /// Measure Redisson's locks in the same rounds, too, each compared with the form that does the same; `cargo xtask
    /// peers` builds their driver
    #[arg(long)]
    pub(crate) peers: bool,
    /// Only this workload; may be given more than once
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<forms::Workload>,
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Debug, Group)]
pub(crate) struct Page {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Group)]
pub(crate) struct Publish {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The folder that gets the report and its pages
    #[arg(long, value_name = "DIR", default_value = "docs/compare")]
    pub(crate) to: PathBuf,
    /// The page that gets the table
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    pub(crate) readme: PathBuf,
}

#[derive(Debug, Group)]
pub(crate) struct Hold {
    /// The server's URL
    #[arg(long, value_name = "URL")]
    pub(crate) on: String,
    /// How many locks
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = at_least_one)]
    pub(crate) locks: usize,
    /// How long to hold them, once all are held: 30s, 5m, …
    #[arg(long = "for", value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub(crate) length: Duration,
    /// The ttl of each lock; it is renewed after every third of it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub(crate) ttl: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Argue {
    /// How often each story is played
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) rounds: u32,
}

#[derive(Debug, Group)]
pub(crate) struct Calibrate {
    /// The server: redis://HOST:PORT, postgres://… or mysql://…
    #[arg(long, value_name = "URL")]
    pub(crate) on: String,
    #[command(flatten)]
    pub(crate) run: Run,
}

#[derive(Debug, Group)]
pub(crate) struct Run {
    /// How long each workload is measured, in seconds
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::TABLE }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a number, at least 1".into()),
        Ok(threads) => Ok(threads),
    }
}

const RATIOS: &str = "\
Subjects take turns in slices of a quarter of a second; a ratio is the median of the ratios of the rounds:
  uncontended  the subject's cycles/s / the floor's      (higher is better)
  many-names   the same
  one-name     the subject's cycles/s / those of the library uncontended, in the same rounds (higher is better)
  one-lost     the p50 without one of the servers / the p50 with all of them (lower is better)
  hand-over    the subject's p50 / the floor's           (lower is better)
  delay        the delay / the delay allowed, an eighth of the wait (99 % of the delays lie below; lower is better)
  renewal      the p50 beside 100 waiters / the p50 alone                 (lower is better)
  commits      commits/s beside the subject / beside the same loops without NOTIFY (higher is better)
  first-lock   the time to the grant / that of the raw driver's process   (lower is better)
The p99 ratio is that of the p99s to the same subject (lower is better). The token's price is the ratio to no-token.
See bench/README.md for more.";
