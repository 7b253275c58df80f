//! Reads the public API of crates from the sources: rustdoc describes each crate in JSON, and the program
//! `xtask/public-api` makes a list of that.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::steps::command;
use crate::workspace::{cargo, target};

/// An item of the API on each line, by the name of the crate.
pub(super) type Listings = BTreeMap<String, String>;

/// The sources' listings, as far as this toolchain lets them be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading<T> {
    Read(T),
    /// This toolchain's rustdoc writes another format of JSON than the one that is read here.
    Unreadable(String),
}

/// The exit status of `xtask/public-api` for a file in another format.
const UNKNOWN_FORMAT: i32 = 3;
/// Every type has them or not, and no stable program can name them. They come and go with compilers.
const UNNAMEABLE: [&str; 3] =
    ["core::marker::Freeze for ", "core::marker::UnsafeUnpin for ", "core::marker::StructuralPartialEq for "];

/// Reads the API of these packages.
pub(super) fn read(names: &[&str]) -> Result<Reading<Listings>, String> {
    build()?;
    describe()?;
    let mut listings = Listings::new();
    for &name in names {
        let json = folder().join("doc").join(format!("{}.json", name.replace('-', "_")));
        let output = Command::new(program("onelock-public-api")).arg(&json).output();
        match understood(&output.map_err(|error| format!("onelock-public-api: {error}"))?) {
            Ok(Reading::Read(text)) => drop(listings.insert(name.to_owned(), text)),
            Ok(Reading::Unreadable(why)) => return Ok(Reading::Unreadable(why)),
            Err(why) => return Err(format!("{}: {why}", json.display())),
        }
    }
    Ok(Reading::Read(listings))
}

/// Builds the programs of `xtask/public-api`.
fn build() -> Result<(), String> {
    let package = ["--quiet", "--manifest-path", "xtask/public-api/Cargo.toml"];
    command(cargo("build", &package).arg("--target-dir").arg(folder()))
}

/// Has rustdoc describe all crates, with the features of the documentation, so that what it has checked of the
/// dependencies is used again. The build folder is shared for the same reason; what rustdoc writes is not,
/// because cargo would remove the HTML for it.
fn describe() -> Result<(), String> {
    let everything = ["--quiet", "--workspace", "--lib", "--no-deps", "--all-features"];
    let mut rustdoc = cargo("doc", &everything);
    rustdoc.arg("--target-dir").arg(folder()).env("CARGO_BUILD_BUILD_DIR", target());
    rustdoc.env("RUSTDOC", program("unstable-rustdoc"));
    // The step "documentation" shows the warnings.
    rustdoc.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow");
    command(&mut rustdoc)
}

/// Understands what `xtask/public-api` said of one crate.
fn understood(output: &Output) -> Result<Reading<String>, String> {
    let complaint = || String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
    match output.status.code() {
        Some(0) => Ok(Reading::Read(nameable(&String::from_utf8_lossy(&output.stdout)))),
        Some(UNKNOWN_FORMAT) => Ok(Reading::Unreadable(complaint())),
        _ => Err(format!("{} ({})", complaint(), output.status)),
    }
}

/// Leaves out the implementations of traits that stable programs can't name.
fn nameable(items: &str) -> String {
    let is_unnameable =
        |item: &&str| item.starts_with("impl") && UNNAMEABLE.iter().any(|name| item.contains(name));
    items.lines().filter(|item| !is_unnameable(item)).flat_map(|item| [item, "\n"]).collect()
}

fn program(name: &str) -> PathBuf {
    folder().join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn folder() -> PathBuf {
    target().join("public-api")
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    /// Returns what a program said that ended with this exit status.
    #[cfg(unix)]
    fn said(status: i32, stdout: &str, stderr: &str) -> Output {
        use std::os::unix::process::ExitStatusExt;

        // wait(2) has the exit status in the second byte.
        let status = ExitStatus::from_raw(status << 8);
        Output { status, stdout: stdout.into(), stderr: stderr.into() }
    }

    #[cfg(unix)]
    #[test]
    fn an_unknown_format_is_no_failure_and_no_listing() {
        let why = "rustdoc writes format 99 of its JSON here, and xtask/public-api reads 57";
        let read = understood(&said(UNKNOWN_FORMAT, "", &format!("{why}\n")));
        assert_eq!(read, Ok(Reading::Unreadable(why.to_owned())));
    }

    #[cfg(unix)]
    #[test]
    fn a_listing_is_read_and_any_other_end_is_a_failure() {
        let read = understood(&said(0, "pub mod a\n", ""));
        assert_eq!(read, Ok(Reading::Read("pub mod a\n".to_owned())));
        let failed = understood(&said(1, "", "no such file\n")).expect_err("it failed");
        assert!(failed.contains("no such file") && failed.contains('1'), "{failed}");
    }

    #[test]
    fn traits_that_stable_programs_cannot_name_are_left_out() {
        let items = "pub struct a::S\nimpl core::marker::Freeze for a::S\nimpl !core::marker::Freeze for a::T\n\
            impl<T> core::marker::UnsafeUnpin for a::U<T> where T: core::marker::UnsafeUnpin\n\
            impl core::marker::StructuralPartialEq for a::S\nimpl core::marker::Send for a::S\n";
        assert_eq!(nameable(items), "pub struct a::S\nimpl core::marker::Send for a::S\n");
    }
}
