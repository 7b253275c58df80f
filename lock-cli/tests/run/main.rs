//! The program as its users see it: exit statuses, output, signals, and what it leaves on a real server.

#![allow(
    clippy::unwrap_used,
    reason = "clippy allows it in tests, but knows only those of the usual harness"
)]

#[cfg(unix)]
mod unix;

fn main() {
    #[cfg(unix)]
    unix::main();
    #[cfg(not(unix))]
    println!("not run: the cases are shell scripts, process groups and signals");
}
