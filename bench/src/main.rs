//! Compares the library with the best that its drivers can do, and with peers, in one interleaved run.
//!
//! `bench/README.md` says what is measured and how to read it.

// The futures of sqlx are nested deeper than the compiler's default limit.
#![recursion_limit = "256"]

mod args;
mod argument;
mod backend;
mod calibrate;
mod clock;
mod clusters;
mod compare;
mod counter;
mod cpu;
#[allow(unreachable_pub, dead_code, reason = "xtask includes this file, too, and builds all of them")]
#[path = "../peers/catalogue.rs"]
mod drivers;
mod durable;
mod forms;
mod hold;
mod labels;
mod left;
mod lineup;
mod machine;
mod measured;
mod quick;
mod raw;
mod report;
mod revision;
mod rounds;
mod secrets;
mod servers;
mod site;
mod subjects;
mod tally;
mod targets;
mod timestamp;
mod usage;
mod workload;
mod workloads;

use std::process::ExitCode;

use clap::Parser;
use lock_foreign_clients::catalogue as interop;
use tokio::runtime::Builder;

use crate::args::{Args, Command};

/// A result with any error: this program only prints it.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match start(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lock-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> Outcome<ExitCode> {
    if let Command::RawRun(options) = args.command {
        // As the program `lock`, which it is compared with.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(workloads::raw_run::run(options)).map(|()| ExitCode::SUCCESS);
    }
    let runtime = Builder::new_multi_thread().worker_threads(args.threads).enable_all().build()?;
    // Not on the main thread, which is not a worker of the runtime: everything that is measured runs where a server's
    // tasks run.
    let outcome = runtime.block_on(runtime.spawn(run(args.command)))?;
    // In a workload's other process, a thread may wait for its input for ever.
    runtime.shutdown_background();
    outcome
}

async fn run(command: Command) -> Outcome<ExitCode> {
    match command {
        Command::Compare(options) => return compare::run(options).await,
        Command::Page(options) => compare::page(&options),
        Command::Publish(options) => compare::publish(&options),
        Command::Quick(options) => quick::run(options).await,
        Command::Forms(options) => forms::run(options).await,
        Command::Hold(options) => hold::run(options).await,
        Command::Argue(options) => argument::run(options).await,
        Command::Calibrate(options) => calibrate::run(options).await,
        Command::Measured(options) => measured::run(&options),
        Command::HandOverSide => workloads::side::run().await,
        Command::RawRun(options) => workloads::raw_run::run(options).await,
        Command::PlayClaims => compare::play_claims().await,
    }?;
    Ok(ExitCode::SUCCESS)
}
