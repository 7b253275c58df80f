//! Runs rustdoc with its unstable options allowed, on a stable toolchain, too. `cargo xtask` names this program in
//! `RUSTDOC`. With `RUSTC_BOOTSTRAP` in its own environment cargo would build all dependencies again: their build scripts
//! ask for that variable.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let rustdoc =
        Command::new("rustdoc").args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    match rustdoc {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rustdoc: {error}");
            ExitCode::FAILURE
        }
    }
}
