//! The checks beside the tests. Their order lets each step use what the step before it has built.

use std::process::ExitCode;

use crate::api;
use crate::deny;
use crate::documents::{self, read};
use crate::evidence;
use crate::levels;
use crate::mutants;
use crate::steps::{Steps, command};
use crate::targets::has_own_main;
use crate::workspace::{Package, cargo, packages, root, target};

/// The package of the program `lock`.
const PROGRAM: &str = "lock-cli";

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
    steps.step("our crates want each other in the present version", || versions(&packages));
    steps.step("inside lock-core no import goes upwards", levels::check);
    steps.step("the documents name what exists", documents::check);
    steps.step("the documents list the tests of each promise", evidence::check);
    steps.step("the planted bugs apply, and their cases exist", mutants::check);
    let everything = ["--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    // The packages are not built: `cargo publish --workspace --dry-run` does that, too, and takes minutes.
    let packed = ["--workspace", "--dry-run", "--no-verify", "--allow-dirty", "--quiet"];
    steps.step("the crates can be packed", || command(&mut cargo("publish", &packed)));
    steps.step_if_possible("licences, duplicate versions and sources of what users build", deny::check);
    steps.step_if_possible("known vulnerabilities of what users build", deny::check_advisories);
    steps.step("clippy", || command(&mut cargo("clippy", &everything)));
    for folder in ["xtask/public-api", "conformance/foreign/rslock", "conformance/foreign/sql-fences"] {
        apart(&mut steps, folder);
    }
    let documentation = ["--workspace", "--no-deps", "--all-features"];
    steps.step("documentation", || command(cargo("doc", &documentation).env("RUSTDOCFLAGS", "-D warnings")));
    // After the documentation, which has checked the dependencies that rustdoc reads.
    steps.step_if_possible(api::STEP, || api::check(&packages));
    // The program passes its features on, and has no code of its own for any of them. Those of the tests' crates serve their
    // own builds.
    let is_library =
        |package: &&Package| package.is_backend() || ["lock-core", "onelock"].contains(&&*package.name);
    for package in packages.iter().filter(is_library).filter(|package| !package.features.is_empty()) {
        alone(&mut steps, package);
    }
    let bare = ["-p", PROGRAM, "--no-default-features"];
    steps.step(&format!("{PROGRAM} without features"), || command(&mut cargo("check", &bare)));
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
        let one = [&bare[..], &["--features", feature.as_str()]].concat();
        steps.step(&format!("{name} with {feature} alone"), || command(&mut cargo("check", &one)));
    }
}

/// Checks that our crates depend on each other in the workspace's version. cargo builds with an older one as
/// well, and would publish it.
fn versions(packages: &[Package]) -> Result<(), String> {
    let workspace = read(&root().join("Cargo.toml"))?;
    let (_, ours) =
        workspace.split_once("[workspace.package]\n").ok_or("Cargo.toml has no [workspace.package]")?;
    let ours = ours.lines().find(|line| line.starts_with("version = ")).ok_or("Cargo.toml has no version")?;
    let mut wrong = Vec::new();
    for folder in packages.iter().map(|package| package.folder.as_str()).chain([""]) {
        let manifest = read(&root().join(folder).join("Cargo.toml"))?;
        let named = |line: &&str| line.contains("path = \"") && line.contains("version = \"");
        let others = manifest.lines().filter(named).filter(|line| !line.contains(ours));
        wrong.extend(others.map(|line| format!("{folder}: {line}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("not {ours}:\n{}", wrong.join("\n"))) }
}

/// Checks that every backend runs the suite, and that users can turn it on in the facade and in the program.
/// The program has no use for metrics.
fn backends(packages: &[Package]) -> Result<(), String> {
    let manifest = |folder: &str| read(&root().join(folder).join("Cargo.toml"));
    let (facade, program) = (manifest("onelock")?, manifest(PROGRAM)?);
    let mut missing = Vec::new();
    for backend in packages.iter().filter(|package| package.is_backend()) {
        if !has_own_main(&manifest(&backend.folder)?, "conformance") {
            missing.push(format!("the test `conformance` in {}", backend.folder));
        }
        let named = [format!("package = \"{}\"", backend.name), format!("\"dep:{}\"", backend.name)];
        if !named.iter().any(|named| facade.contains(named)) {
            missing.push(format!("a dependency on {} in onelock", backend.name));
        }
    }
    let features =
        packages.iter().filter(|package| package.name == "onelock").flat_map(|facade| &facade.features);
    let passed_on = features
        .filter(|feature| *feature != "metrics")
        .map(|name| format!("\n{name} = [\"onelock/{name}\"]"));
    missing
        .extend(passed_on.filter(|line| !program.contains(line)).map(|line| format!("{line} in {PROGRAM}")));
    if missing.is_empty() { Ok(()) } else { Err(format!("missing: {}", missing.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::{backends, versions};
    use crate::workspace::packages;

    #[test]
    fn our_crates_want_this_version_with_every_backend() {
        let packages = packages().unwrap();
        versions(&packages).unwrap();
        backends(&packages).unwrap();
    }
}
