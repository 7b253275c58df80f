//! The program `lock`: runs a command while holding a lock, and inspects or breaks locks.

// These macros panic if the output can't be written. The module `print` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod acquisition;
mod args;
mod change;
mod child;
mod event;
mod exit;
mod hold;
mod input;
mod keeper;
mod list;
mod look;
mod os;
mod print;
mod run;
mod shell;
mod terms;
mod watch;

use tokio::runtime::Builder;

use args::{Args, Verb};
use exit::{About, Exit, Failure};

fn main() {
    os::outlive_full_files();
    print::note_panics();
    let exit = carry_out().unwrap_or_else(|failure| {
        print::note(&failure);
        failure.exit()
    });
    keeper::fail_under_eval(exit);
    print::finish();
    std::process::exit(exit.code());
}

fn carry_out() -> Result<Exit, Failure> {
    if let Some(outcome) = os::inner_call(std::env::args_os().skip(1)) {
        return outcome;
    }
    let verb = match Args::read() {
        Ok(Args { verb }) => verb,
        Err(refusal) => return refusal.show(),
    };
    os::room_for_threads()?;
    match verb {
        Verb::Run(run) => on_a_runtime(run.carry_out()),
        Verb::Hold(hold) => on_a_runtime(hold.carry_out()),
        Verb::Acquire(acquire) => on_a_runtime(acquire.carry_out()),
        Verb::Release(release) => on_a_runtime(release.carry_out()),
        Verb::Status(status) => on_a_runtime(status.carry_out()),
        Verb::List(list) => on_a_runtime(list.carry_out()),
        Verb::Watch(watch) => on_a_runtime(watch.carry_out()),
        Verb::Break(break_) => on_a_runtime(break_.carry_out()),
        Verb::Info(info) => on_a_runtime(info.carry_out()),
        Verb::Check(check) => on_a_runtime(check.carry_out()),
        Verb::Schema(schema) => schema.carry_out(),
        Verb::Init(init) => on_a_runtime(init.carry_out()),
        Verb::Completions(completions) => completions.carry_out(),
        Verb::Man(man) => man.carry_out(),
    }
}

/// Runs `work` on a runtime with one thread: no work here needs a second one.
fn on_a_runtime(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    os::room_for_a_runtime()?;
    let runtime = Builder::new_current_thread().enable_all().build().about("an asynchronous runtime")?;
    let outcome = runtime.block_on(work);
    // Does not wait for a thread that still looks up a host's name.
    runtime.shutdown_background();
    outcome
}
