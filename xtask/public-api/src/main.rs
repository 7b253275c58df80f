//! Prints the public API of a crate, an item on each line, from the JSON that rustdoc has written of the crate.
//!
//! ```text
//! onelock-public-api FILE
//! ```
//!
//! The exit status is 3 if the file has another format than the one that this program reads.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use public_api::rustdoc_types::FORMAT_VERSION;
use serde::Deserialize;

/// `cargo xtask` knows this number (`xtask/src/api/listing.rs`).
const UNKNOWN_FORMAT: u8 = 3;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("Usage: onelock-public-api FILE");
        return ExitCode::from(2);
    };
    let outcome = listing(Path::new(&file)).and_then(|text| Ok(io::stdout().write_all(text.as_bytes())?));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            if error.is::<UnknownFormat>() { ExitCode::from(UNKNOWN_FORMAT) } else { ExitCode::FAILURE }
        }
    }
}

/// Returns the items that a file describes, each on a line.
fn listing(file: &Path) -> Result<String, Box<dyn Error>> {
    let Head { format_version } = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    if format_version != FORMAT_VERSION {
        return Err(UnknownFormat { format_version }.into());
    }
    // What every type has says nothing about this crate.
    let items = public_api::Builder::from_rustdoc_json(file).omit_blanket_impls(true).build()?;
    Ok(items.to_string())
}

/// The part of the file that every format has.
#[derive(Deserialize)]
struct Head {
    format_version: u32,
}

#[derive(Debug)]
struct UnknownFormat {
    format_version: u32,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.format_version;
        write!(
            f,
            "rustdoc writes format {found} of its JSON here, and xtask/public-api reads {FORMAT_VERSION}"
        )
    }
}

impl Error for UnknownFormat {}
