//! Compares the library with what its drivers could do at best, and with peers, in one interleaved run.
//!
//! `bench/README.md` says what is measured and how to read it.

// The futures of sqlx are nested deeper than the compiler looks by itself.
#![recursion_limit = "256"]

mod args;
mod argument;
mod backend;
mod calibrate;
mod clock;
mod counter;
mod hold;
mod lineup;
mod quick;
mod raw;
mod report;
mod rounds;
mod servers;
mod subjects;
mod tally;
mod targets;
mod workloads;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::Builder;

use crate::args::{Args, Command};

/// Any error: the bench only tells it to a person.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match start(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lock-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> Outcome<()> {
    let runtime = Builder::new_multi_thread().worker_threads(args.threads).enable_all().build()?;
    // Not on the main thread, which is no worker of the runtime: everything that is measured runs where a server's
    // tasks run.
    let outcome = runtime.block_on(runtime.spawn(run(args.command)))?;
    // The other side's thread may be reading its input for ever.
    runtime.shutdown_background();
    outcome
}

async fn run(command: Command) -> Outcome<()> {
    match command {
        Command::Quick(options) => quick::run(options).await,
        Command::Hold(options) => hold::run(options).await,
        Command::Argue(options) => argument::run(options).await,
        Command::Calibrate(options) => calibrate::run(options).await,
        Command::HandOverSide => workloads::side::run().await,
    }
}
