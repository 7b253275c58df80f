//! `measured`: what has changed between two runs of `quick --json`.

mod comparison;
mod file;
mod markdown;

use self::comparison::Comparison;
use self::file::Measured;
use crate::{Outcome, args};

/// Reads both files, and prints a document in Markdown.
pub(crate) fn run(options: &args::Measured) -> Outcome<()> {
    let (before, after) = (Measured::read(&options.before)?, Measured::read(&options.after)?);
    print!("{}", markdown::document(&Comparison::of(&before, &after)));
    Ok(())
}
