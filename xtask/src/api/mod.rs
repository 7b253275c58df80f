//! Compares the public API of the libraries with the committed listings in `docs/public-api`, so that no change of it
//! goes unseen.

mod difference;
mod listing;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::documents::{files, read};
use crate::steps::{End, Steps};
use crate::workspace::{Package, packages, root};
use listing::{Listings, Reading};

pub(crate) const STEP: &str = "the public API is the committed one";
const FOLDER: &str = "docs/public-api";

/// What `cargo xtask api` is asked for.
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
        Purpose::Write => steps.step(FOLDER, || write(&packages()?)),
    }
    steps.finish()
}

/// Compares the committed listings with the sources. `Err` lists the lines that differ.
pub(crate) fn check(packages: &[Package]) -> Result<End, String> {
    match listing::read(&listed(packages))? {
        Reading::Unreadable(why) => Ok(End::NotRun(why)),
        Reading::Read(now) => match difference::between(&committed()?, &now) {
            None => Ok(End::Done),
            Some(difference) => Err(format!(
                "{FOLDER} differs from the sources:\n{difference}\
                 A line with - is no longer in the API: programs that use it do not compile any more.\n\
                 If the change is meant: `cargo xtask api --write`, and commit the listings (CONTRIBUTING.md)."
            )),
        },
    }
}

/// Makes the committed listings anew, and removes those of crates that are gone.
fn write(packages: &[Package]) -> Result<(), String> {
    let now = match listing::read(&listed(packages))? {
        Reading::Read(now) => now,
        Reading::Unreadable(why) => return Err(format!("nothing is written: {why}")),
    };
    let failed = |path: &PathBuf, error| format!("{}: {error}", path.display());
    fs::create_dir_all(root().join(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
    for gone in committed()?.keys().filter(|name| !now.contains_key(*name)) {
        let path = file(gone);
        fs::remove_file(&path).map_err(|error| failed(&path, error))?;
    }
    for (name, text) in &now {
        let path = file(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
        println!("{FOLDER}/{name}.txt: {} lines", text.lines().count());
    }
    Ok(())
}

/// Returns the names of the packages that users or authors of backends depend on.
fn listed(packages: &[Package]) -> Vec<&str> {
    let names = packages.iter().filter(|package| package.is_backend()).map(|package| package.name.as_str());
    ["onelock", "lock-core", "lock-conformance"].into_iter().chain(names).collect()
}

/// Reads the committed listings.
fn committed() -> Result<Listings, String> {
    let folder = root().join(FOLDER);
    if !folder.exists() {
        return Ok(Listings::new());
    }
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    files(&folder, "txt")?.iter().map(|path| Ok((name(path), read(path)?))).collect()
}

fn file(package: &str) -> PathBuf {
    root().join(FOLDER).join(format!("{package}.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listing_is_of_a_library_and_every_library_has_one() {
        let packages = packages().expect("the manifests are readable");
        let mut listed = listed(&packages);
        listed.sort_unstable();
        let committed = committed().expect("the listings are readable");
        assert_eq!(committed.keys().collect::<Vec<_>>(), listed);
        assert!(listed.contains(&"lock-redis") && !listed.contains(&"lock-cli"));
    }
}
