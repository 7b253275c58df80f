//! Standard output, of the calls that have something to say there.

use std::fmt::Display;
use std::io::{self, Write};

/// One line, or several. A reader that has closed its end wants no more of it.
pub(crate) fn line(text: impl Display) {
    let _: io::Result<()> = writeln!(io::stdout().lock(), "{text}");
}
