//! The command line.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};

/// Compares the library with the least that its drivers could do, and with peers.
#[derive(Debug, Parser)]
#[command(name = "lock-bench", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measures, and writes a report and a page from which to choose a server.
    Run(Run),
    /// Makes report.html and README.md anew from the report.json of a folder.
    Page(Page),
    /// Prints what has changed between two runs, as a table in Markdown.
    Diff(Diff),
    /// Plays the documents' argument about Redlock on five real servers: what goes wrong, and what harm it does.
    Argue(Argue),
    /// The other process of a workload.
    #[command(hide = true)]
    Side,
    /// The process that tries claims.
    #[command(hide = true)]
    PlayClaims,
}

#[derive(Debug, Default, Group)]
pub(crate) struct Run {
    /// A server's URL, or the name of a kind (redis, mysql, …), of which a server is started; may be given more than
    /// once. A kind may have parameters (redis?fair=true), and redis-durable, mysql-durable, … write to the disk before
    /// they acknowledge. Without this option: everything that this machine has
    #[arg(long, value_name = "URL|NAME")]
    pub(crate) on: Vec<String>,
    /// Only this workload, or only one case of it ("own-names tasks=64"); may be given more than once
    #[arg(long = "workload", value_name = "WORKLOAD")]
    pub(crate) workloads: Vec<String>,
    /// Shorter, and fewer cases
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure other libraries' locks in the same rounds, too; `cargo xtask peers` builds those that are not in Rust
    #[arg(long)]
    pub(crate) peers: bool,
    /// The folder of the report. A folder with the report of an interrupted run continues it. Default: a new folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Page {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Also put the table of figures into this page, between its two marks
    #[arg(long, value_name = "FILE")]
    pub(crate) readme: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Diff {
    /// The folder of the run before a change
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The folder of the run after it
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
}

#[derive(Debug, Group)]
pub(crate) struct Argue {
    /// Each story is played so often
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) rounds: u32,
}
