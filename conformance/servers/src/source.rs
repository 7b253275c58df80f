//! Where a server comes from.

use std::fmt;
use std::path::PathBuf;

/// Where a server comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The URL in this environment variable.
    Url {
        /// `LOCK_TEST_REDIS`, …
        variable: &'static str,
    },
    /// This program, started here.
    Program(PathBuf),
    /// This program of another system, started here under chroot.
    Chroot(PathBuf),
    /// A container of this image, started here.
    Container {
        /// Its name: `redis:7.4`.
        image: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Url { variable } => write!(f, "given by {variable}"),
            Source::Program(program) => write!(f, "started from {}", program.display()),
            Source::Chroot(program) => write!(f, "started from {} under chroot", program.display()),
            Source::Container { image } => write!(f, "in a container of {image}"),
        }
    }
}
