//! Runs rustdoc with its unstable options allowed, on a stable toolchain, too. `cargo xtask` names this program in
//! `RUSTDOC`. With `RUSTC_BOOTSTRAP` in its own environment cargo would build all dependencies again: their build scripts
//! ask for that variable.

use std::process::{Command, ExitCode};

fn main() -> std::io::Result<ExitCode> {
    let mut rustdoc = Command::new("rustdoc");
    let status = rustdoc.args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
