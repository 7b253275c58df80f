//! The checks beside the tests. Their order lets each step use what the step before it has built.

use std::fs;
use std::process::ExitCode;

use crate::api;
use crate::cost;
use crate::deny;
use crate::documents;
use crate::evidence;
use crate::levels;
use crate::mutants;
use crate::publication;
use crate::steps::{Steps, command};
use crate::targets::has_own_main;
use crate::versions;
use crate::workspace::{Package, cargo, packages, root, target};

/// The package of the program `lock`.
const PROGRAM: &str = "lock-cli";

/// Some sets of its features: none, one, and a server with encryption. The program has no code of its own for any of
/// them. Each turns on the facade's feature of the same name, which is built alone.
const FEATURES_OF_THE_PROGRAM: [&str; 3] = ["", "sqlite", "redis,tls"];

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
    steps.step("a backend costs six lines outside of its folder, or fewer", cost::check);
    steps.step("our crates want each other in the present version", versions::check);
    steps.step("inside lock-core no import goes upwards", levels::check);
    steps.step("the documents name what exists", documents::check);
    steps.step("the documents list the tests of each promise", evidence::check);
    steps.step("the planted bugs apply, and their cases exist", mutants::check);
    let everything = ["--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    steps.step("the copy of etcd-client is what the original gives", etcd_client);
    steps.step("the crates can be published", || publication::check(&packages));
    steps.step_if_possible("licences, duplicate versions and sources of what users build", deny::check);
    steps.step_if_possible("known vulnerabilities of what users build", deny::check_advisories);
    steps.step("clippy", || command(&mut cargo("clippy", &everything)));
    for folder in [
        "xtask/etcd-client",
        "xtask/public-api",
        "conformance/foreign/rslock",
        "conformance/foreign/sql-fences",
    ] {
        apart(&mut steps, folder);
    }
    let documentation = ["--workspace", "--no-deps", "--all-features"];
    steps.step("documentation", || command(cargo("doc", &documentation).env("RUSTDOCFLAGS", "-D warnings")));
    // After the documentation, which has checked the dependencies that rustdoc reads.
    steps.step_if_possible(api::STEP, || api::check(&packages));
    for package in packages.iter().filter(|package| !package.features.is_empty() && package.name != PROGRAM) {
        alone(&mut steps, package);
    }
    for features in FEATURES_OF_THE_PROGRAM {
        let few = ["-p", PROGRAM, "--no-default-features", "--features", features];
        steps.step(&format!("{PROGRAM} with [{features}] alone"), || command(&mut cargo("check", &few)));
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

/// Compares `lock-etcd/client` with the published crate and with the code that is generated from its `.proto` files.
fn etcd_client() -> Result<(), String> {
    let this = ["--manifest-path", "xtask/etcd-client/Cargo.toml"];
    command(cargo("run", &this).arg("--target-dir").arg(target().join("etcd-client")))
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

/// Checks that every backend runs the suite, and that users can turn it on in the facade and in the program.
fn backends(packages: &[Package]) -> Result<(), String> {
    let named = |name: &str| packages.iter().find(|package| package.name == name);
    let facade = named("onelock").ok_or("there is no onelock")?;
    let program = named(PROGRAM).ok_or("there is no program")?;
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
    missing.extend(
        not_in_the_program(facade, program).map(|feature| format!("{feature} in {PROGRAM}/Cargo.toml")),
    );
    if missing.is_empty() { Ok(()) } else { Err(format!("missing: {}", missing.join(", "))) }
}

/// Returns the features of the facade that the program does not pass on by the same name. The program has no use for
/// metrics.
fn not_in_the_program(facade: &Package, program: &Package) -> impl Iterator<Item = String> {
    let has: Vec<String> = program.features.iter().map(|f| format!("{} = {}", f.name, f.turns_on)).collect();
    let wanted = facade.features.iter().filter(|feature| feature.name != "metrics");
    let wanted = wanted.map(|feature| format!("{0} = [\"onelock/{0}\"]", feature.name));
    wanted.filter(move |line| !has.contains(line))
}

/// Returns whether a feature turns this backend on: one that is its dependency, or that names it.
fn offers(facade: &Package, backend: &str) -> bool {
    let names = [format!("package = \"{backend}\""), format!("\"dep:{backend}\"")];
    facade.features.iter().any(|feature| names.iter().any(|name| feature.turns_on.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::{not_in_the_program, offers};
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

    #[test]
    fn the_program_passes_each_feature_of_the_facade_on() {
        let package = |features: &[(&str, &str)]| Package {
            folder: "x".to_owned(),
            name: "x".to_owned(),
            features: features
                .iter()
                .map(|(name, turns_on)| Feature {
                    name: (*name).to_owned(),
                    turns_on: (*turns_on).to_owned(),
                })
                .collect(),
        };
        let facade = package(&[("a", "[]"), ("metrics", "[]"), ("b", "[]"), ("c", "[]")]);
        let program = package(&[("a", "[\"onelock/a\"]"), ("b", "[\"onelock/a\"]")]);
        let missing: Vec<_> = not_in_the_program(&facade, &program).collect();
        assert_eq!(missing, ["b = [\"onelock/b\"]", "c = [\"onelock/c\"]"]);
    }
}
