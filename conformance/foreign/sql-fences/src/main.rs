//! Writes under a fence with another library's SQL driver, in one transaction: first the fence's statement, then what is
//! written. Each driver does what docs/guide/fence.md shows.
//!
//! `driver LIBRARY DATABASE STATEMENT WRITE RESOURCE TOKEN` prints `accepted`, or `stale` and the highest token.

mod diesel;
mod sqlx;
mod tokio_postgres;

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// One write of one holder.
struct Write<'a> {
    /// A URL, or the path of a file.
    database: &'a str,
    /// The fence's statement.
    accept: &'a str,
    /// The holder's write.
    write: &'a str,
    resource: &'a str,
    token: i64,
}

enum Outcome {
    Accepted,
    Stale { highest: i64 },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Accepted => f.write_str("accepted"),
            Outcome::Stale { highest } => write!(f, "stale {highest}"),
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Outcome, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, database, accept, write, resource, token] = arguments.as_slice() else {
        return Err("driver LIBRARY DATABASE STATEMENT WRITE RESOURCE TOKEN".into());
    };
    let write = Write { database, accept, write, resource, token: token.parse()? };
    match library.as_str() {
        "diesel" => diesel::run(&write),
        "sqlx" => sqlx::run(&write),
        "tokio-postgres" => tokio_postgres::run(&write),
        other => Err(format!("there is no driver for {other}").into()),
    }
}

/// Runs `future` on this thread.
fn block_on<T>(future: impl Future<Output = Result<T, Box<dyn Error>>>) -> Result<T, Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
