//! Compares the library with the least that its drivers could do, and with peers, in one interleaved run.
//!
//! `bench/README.md` says what is measured and how to read it. [`plan`] says what is done, [`run`](mod@run) does it,
//! [`report`] is what comes of it, [`goals`] and [`claims`] judge that, and [`mod@print`] and [`page`] show it.

// The futures of sqlx are nested deeper than the compiler's default limit.
#![recursion_limit = "256"]

mod args;
mod argument;
mod backend;
mod case;
mod claims;
mod clock;
mod clusters;
mod counter;
#[allow(unreachable_pub, dead_code, reason = "xtask includes this file, too, and builds all of them")]
#[path = "../peers/catalogue.rs"]
mod drivers;
mod entrants;
mod goals;
mod lineup;
mod machine;
mod page;
mod plan;
mod print;
mod raw;
mod report;
mod rounds;
mod row;
mod run;
mod secrets;
mod servers;
mod subjects;
mod tally;
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
    // With a second worker, tokio's scheduler would wake it after every third switch between tasks.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // Not on the main thread, which is not a worker of the runtime: everything that is measured runs where a server's
    // tasks run.
    let outcome = runtime.block_on(runtime.spawn(command(args.command)))?;
    // In a workload's other process, a thread may wait for its input for ever.
    runtime.shutdown_background();
    outcome
}

async fn command(command: Command) -> Outcome<ExitCode> {
    match command {
        Command::Run(options) => return run::run(options).await,
        Command::Page(options) => page::make(&options),
        Command::Diff(options) => print::diff(&options),
        Command::Argue(options) => argument::run(options).await,
        Command::Side => workloads::side::run().await,
        Command::PlayClaims => claims::play::run().await,
    }?;
    Ok(ExitCode::SUCCESS)
}
