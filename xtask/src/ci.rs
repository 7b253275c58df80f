//! The checks beside the tests. Their order lets each step use what the step before it has built.

use std::fs;
use std::process::ExitCode;

use crate::api;
use crate::cost;
use crate::documents;
use crate::levels;
use crate::mutants;
use crate::pins;
use crate::steps::{Steps, command};
use crate::targets::has_own_main;
use crate::versions;
use crate::workspace::{Package, cargo, packages, root, target};

/// `cargo xtask ci`
pub(crate) fn run() -> ExitCode {
    let packages = match packages() {
        Ok(packages) => packages,
        Err(why) => {
            eprintln!("xtask: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut steps = Steps::default();
    steps.step("formatting", || command(&mut cargo("fmt", &["--all", "--check"])));
    steps.step("every backend is tested and offered", || backends(&packages));
    steps.step("a backend costs five lines outside of its folder, or fewer", cost::check);
    steps.step("our crates want each other in the present version", versions::check);
    steps.step("inside lock-core no import goes upwards", levels::check);
    steps.step("the documents name what exists", documents::check);
    steps.step("a test pins everything that users meet", pins::check);
    steps.step("the planted bugs apply, and their cases exist", mutants::check);
    let everything = ["--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    steps.step("clippy", || command(&mut cargo("clippy", &everything)));
    for folder in
        ["xtask/protoc", "xtask/public-api", "conformance/foreign/rslock", "conformance/foreign/sql-fences"]
    {
        apart(&mut steps, folder);
    }
    let documentation = ["--workspace", "--no-deps", "--all-features"];
    steps.step("documentation", || command(cargo("doc", &documentation).env("RUSTDOCFLAGS", "-D warnings")));
    // After the documentation, which has checked the dependencies that rustdoc reads.
    steps.step_if_possible(api::STEP, || api::check(&packages));
    for package in packages.iter().filter(|package| !package.features.is_empty()) {
        alone(&mut steps, package);
    }
    steps.finish()
}

/// Checks a program in a folder that is a workspace of its own.
fn apart(steps: &mut Steps, folder: &str) {
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let manifest = format!("{folder}/Cargo.toml");
    let this = ["--manifest-path", manifest.as_str()];
    steps.step(&format!("{name}: formatting"), || command(cargo("fmt", &this).args(["--", "--check"])));
    let built = target().join(name);
    steps.step(&format!("{name}: clippy"), || {
        command(cargo("clippy", &this).arg("--target-dir").arg(built).args(["--", "-D", "warnings"]))
    });
}

/// Checks a package without features, and with each feature by itself.
fn alone(steps: &mut Steps, package: &Package) {
    let name = package.name.as_str();
    let bare = ["-p", name, "--no-default-features"];
    steps.step(&format!("{name} without features"), || command(&mut cargo("check", &bare)));
    for feature in &package.features {
        let one = [&bare[..], &["--features", &feature.name]].concat();
        steps.step(&format!("{name} with {} alone", feature.name), || command(&mut cargo("check", &one)));
    }
}

/// Checks that every backend runs the suite, and that users can turn it on in the facade.
fn backends(packages: &[Package]) -> Result<(), String> {
    let facade = packages.iter().find(|package| package.name == "onelock").ok_or("there is no onelock")?;
    let mut missing = Vec::new();
    for folder in packages.iter().filter(|package| package.is_backend()).map(|package| &package.folder) {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap_or_default();
        if !has_own_main(&manifest, "conformance") {
            missing.push(format!("the test `conformance` in {folder}/Cargo.toml"));
        }
        if !offers(facade, folder) {
            missing.push(format!("a dependency on {folder} that is a feature, in onelock/Cargo.toml"));
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("missing: {}", missing.join(", "))) }
}

/// Returns whether a feature turns this backend on: one that is its dependency, or that names it.
fn offers(facade: &Package, backend: &str) -> bool {
    let names = [format!("package = \"{backend}\""), format!("\"dep:{backend}\"")];
    facade.features.iter().any(|feature| names.iter().any(|name| feature.turns_on.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::offers;
    use crate::workspace::{Feature, Package};

    #[test]
    fn a_backend_is_offered_by_a_feature_that_turns_it_on_itself() {
        let feature = |turns_on: &str| Feature { name: "f".to_owned(), turns_on: turns_on.to_owned() };
        let facade = |turns_on| Package {
            folder: "onelock".to_owned(),
            name: "onelock".to_owned(),
            features: vec![feature("[]"), feature(turns_on)],
        };
        assert!(offers(&facade("[\"dep:lock-sql\", \"lock-sql/mysql\"]"), "lock-sql"));
        assert!(offers(&facade("{ package = \"lock-zk\" }"), "lock-zk"));
        assert!(!offers(&facade("[\"lock-sql?/tls\"]"), "lock-sql"));
        assert!(!offers(&facade("[\"dep:lock-sqlite\"]"), "lock-sql"));
    }
}
