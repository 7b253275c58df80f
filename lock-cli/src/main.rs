//! The program `lock`: runs any command under a lock.

mod args;
mod child;
mod exit;
mod os;
mod run;

use args::{Args, Verb};
use exit::{Exit, Failure};

fn main() {
    let exit = carry_out().unwrap_or_else(|failure| {
        eprintln!("lock: {failure}");
        failure.exit()
    });
    std::process::exit(exit.code());
}

fn carry_out() -> Result<Exit, Failure> {
    if let Some(outcome) = os::inner_call(std::env::args_os().skip(1)) {
        return outcome;
    }
    match Args::read() {
        Ok(Args { verb: Verb::Run(run) }) => run.carry_out(),
        Err(refusal) => Ok(refusal.show()),
    }
}
