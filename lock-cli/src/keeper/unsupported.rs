//! Systems without Unix sockets and parents that can be watched, such as Windows.

use crate::args::{Acquire, Release};
use crate::exit::{Exit, Failure};

impl Acquire {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        Err(refused())
    }
}

impl Release {
    pub(crate) async fn carry_out(self) -> Result<Exit, Failure> {
        Err(refused())
    }
}

fn refused() -> Failure {
    Failure::new(
        Exit::Usage,
        "lock acquire and lock release need a Unix system; use lock run, or lock hold from a program",
    )
}
