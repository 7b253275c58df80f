//! `cargo xtask api`: compares the public API of the libraries with the committed listings in `docs/public-api`, so that no
//! change of it goes unseen. rustdoc describes each crate in JSON, and the program `xtask/public-api` makes a list of that.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::documents::{files_below, read};
use crate::steps::{End, Steps, command};
use crate::workspace::{Package, cargo, packages, root, target};

pub(crate) const STEP: &str = "the public API is the committed one";
const FOLDER: &str = "docs/public-api";
/// The exit status of `xtask/public-api` for JSON in another format than the one that it reads.
const UNKNOWN_FORMAT: i32 = 3;
/// Every type has them or not, and no stable program can name them. They come and go with compilers.
const UNNAMEABLE: [&str; 3] =
    ["core::marker::Freeze for ", "core::marker::UnsafeUnpin for ", "core::marker::StructuralPartialEq for "];

/// The purpose of `cargo xtask api`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Compare the listings with the sources.
    Compare,
    /// Make the listings anew.
    Write,
}

/// `cargo xtask api`
pub(crate) fn run(purpose: Purpose) -> ExitCode {
    let mut steps = Steps::default();
    match purpose {
        Purpose::Compare => steps.step_if_possible(STEP, || check(&packages()?)),
        Purpose::Write => steps.step_if_possible(FOLDER, || write(&packages()?)),
    }
    steps.finish()
}

/// Compares the committed listings with the sources. `Err` has the lines that differ.
pub(crate) fn check(packages: &[Package]) -> Result<End, String> {
    let now = match listings(packages)? {
        Ok(now) => now,
        Err(why) => return Ok(End::NotRun(why)),
    };
    let mut committed = BTreeMap::new();
    for path in files_below(&root().join(FOLDER), "txt")? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        committed.insert(name, read(&path)?);
    }
    let said = difference(&committed, &now);
    match said.is_empty() {
        true => Ok(End::Done),
        false => Err(format!(
            "{FOLDER} differs from the sources:\n{said}\
             A line with - is no longer in the API: programs that use it do not compile any more.\n\
             If the change is meant: `cargo xtask api --write`, and commit the listings (CONTRIBUTING.md)."
        )),
    }
}

/// Makes the committed listings anew.
fn write(packages: &[Package]) -> Result<End, String> {
    let now = match listings(packages)? {
        Ok(now) => now,
        Err(why) => return Ok(End::NotRun(why)),
    };
    let failed = |error| format!("{FOLDER}: {error}");
    fs::remove_dir_all(root().join(FOLDER))
        .and_then(|()| fs::create_dir(root().join(FOLDER)))
        .map_err(failed)?;
    for (name, text) in now {
        fs::write(root().join(FOLDER).join(format!("{name}.txt")), text).map_err(failed)?;
    }
    Ok(End::Done)
}

/// Returns the items of each library that users or authors of backends depend on, one per line; or why this toolchain does
/// not let them be read.
fn listings(packages: &[Package]) -> Result<Result<BTreeMap<String, String>, String>, String> {
    let built = ["--quiet", "--manifest-path", "xtask/public-api/Cargo.toml"];
    command(cargo("build", &built).arg("--target-dir").arg(folder()))?;
    describe()?;
    let backends =
        packages.iter().filter(|package| package.is_backend()).map(|package| package.name.as_str());
    let mut listings = BTreeMap::new();
    for name in ["onelock", "lock-core", "lock-conformance"].into_iter().chain(backends) {
        let json = folder().join("doc").join(format!("{}.json", name.replace('-', "_")));
        let output = Command::new(program("onelock-public-api")).arg(&json).output();
        let output = output.map_err(|error| format!("onelock-public-api: {error}"))?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        match output.status.code() {
            Some(0) => listings.insert(name.to_owned(), nameable(&String::from_utf8_lossy(&output.stdout))),
            Some(UNKNOWN_FORMAT) => return Ok(Err(complaint)),
            _ => return Err(format!("{}: {complaint} ({})", json.display(), output.status)),
        };
    }
    Ok(Ok(listings))
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

/// Leaves out the implementations of traits that stable programs can't name.
fn nameable(items: &str) -> String {
    let is_unnameable =
        |item: &&str| item.starts_with("impl") && UNNAMEABLE.iter().any(|name| item.contains(name));
    items.lines().filter(|item| !is_unnameable(item)).flat_map(|item| [item, "\n"]).collect()
}

/// Returns the lines of which one side has more than the other: `- gone`, `+ new`. Their order has no meaning. Those of one
/// item are neighbours.
fn difference(committed: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> String {
    let mut surplus: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (listings, sign) in [(committed, -1), (now, 1)] {
        for (name, text) in listings {
            text.lines().for_each(|line| *surplus.entry((name, line)).or_default() += sign);
        }
    }
    let differing = surplus.into_iter().filter(|(_, surplus)| *surplus != 0);
    differing
        .map(|((name, line), sign)| format!("{name} {} {line}\n", if sign < 0 { '-' } else { '+' }))
        .collect()
}

fn program(name: &str) -> PathBuf {
    folder().join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn folder() -> PathBuf {
    target().join("public-api")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_removed_and_changed_lines_are_told() {
        let of = |text: &str| BTreeMap::from([("a".to_owned(), text.to_owned())]);
        assert_eq!(difference(&of("pub f\npub g\n"), &of("pub g\r\npub f\r\n")), "");
        assert_eq!(
            difference(&of("f() -> u8\ng\n"), &of("f() -> u9\ng\n")),
            "a - f() -> u8\na + f() -> u9\n"
        );
        assert_eq!(difference(&of("g\ng\n"), &of("g\n")), "a - g\n", "each occurrence counts");
        assert_eq!(difference(&BTreeMap::new(), &of("g\n")), "a + g\n");
    }

    #[test]
    fn traits_that_stable_programs_cannot_name_are_left_out() {
        let items = "pub struct a::S\nimpl core::marker::Freeze for a::S\nimpl core::marker::Send for a::S\n";
        assert_eq!(nameable(items), "pub struct a::S\nimpl core::marker::Send for a::S\n");
    }
}
