//! Prints the public API of a crate, an item on each line, from the JSON that rustdoc has written of the crate.
//!
//! ```text
//! onelock-public-api FILE
//! ```
//!
//! The exit status is 3 if the file has another format than the one that this program reads.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use public_api::rustdoc_types::FORMAT_VERSION;
use serde::Deserialize;

/// `cargo xtask` knows this number (`xtask/src/api.rs`).
const UNKNOWN_FORMAT: u8 = 3;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let file = std::env::args_os().nth(1).ok_or("Usage: onelock-public-api FILE")?;
    let file = Path::new(&file);
    let Head { format_version } = serde_json::from_str(&fs::read_to_string(file)?)?;
    if format_version != FORMAT_VERSION {
        eprintln!(
            "rustdoc writes format {format_version} of its JSON here, and xtask/public-api reads {FORMAT_VERSION}"
        );
        return Ok(ExitCode::from(UNKNOWN_FORMAT));
    }
    // What every type has says nothing about this crate.
    print!("{}", public_api::Builder::from_rustdoc_json(file).omit_blanket_impls(true).build()?);
    Ok(ExitCode::SUCCESS)
}

/// The part of the file that every format has.
#[derive(Deserialize)]
struct Head {
    format_version: u32,
}
