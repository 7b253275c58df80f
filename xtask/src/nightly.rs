//! `cargo xtask nightly`: runs every test in its full size and many histories of the simulation, and compiles the fuzz
//! targets. The outcome is kept in the target folder: `cargo xtask nightly --status` prints it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, SystemTime};

use crate::git::git;
use crate::setup::Consent;
use crate::steps::{Steps, command};
use crate::test::{self, Extent, Size};
use crate::workspace::{cargo, root, target};

/// The number of histories of each family that are played: a Redlock history takes ten times as long.
const HISTORIES: [(&str, u64); 4] =
    [("lease", 100_000), ("queue", 100_000), ("register", 100_000), ("redlock", 20_000)];
/// Each minute has its own seeds, so that a second run on one day plays other histories. `cargo xtask test` counts days:
/// its seeds are a thousandth of these.
const SEEDS_A_MINUTE: u64 = 1_000_000;

/// `cargo xtask nightly`
pub(crate) fn run(extent: &Extent, consent: Consent) -> ExitCode {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let code = git(root(), &["describe", "--always", "--dirty=, with changes"]).unwrap_or_default();
    let mut steps = Steps::default();
    if extent.has_programs() {
        test::tested(extent, Size::Full, consent, &mut steps);
    }
    for (family, histories) in HISTORIES {
        let step = format!("simulation: {family}");
        if extent.has(&step) {
            steps.step(&step, || simulate(family, histories, began));
        }
    }
    if !matches!(extent, Extent::Programs(_)) {
        let built = target().join("fuzz");
        let this = ["--bins", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"];
        steps.step("the fuzz targets compile", || command(cargo("check", &this).arg(built)));
    }
    // A run of single programs says nothing of the others: the last whole run stays above it.
    let before = match extent {
        Extent::Programs(_) => fs::read_to_string(file()).unwrap_or_default(),
        Extent::Everything | Extent::Quick => String::new(),
    };
    let status = format!("{before}{} {}, {}: {}\n", date(), code.trim(), of(extent), steps.outcome());
    steps.step("the status", || {
        fs::write(file(), status).map_err(|error| format!("{}: {error}", file().display()))
    });
    steps.finish()
}

/// `cargo xtask nightly --status`: prints the date, the commit and the outcome of the last run in this checkout.
pub(crate) fn status() -> ExitCode {
    print!("{}", fs::read_to_string(file()).unwrap_or_else(|_| "not run in this checkout\n".to_owned()));
    ExitCode::SUCCESS
}

fn file() -> PathBuf {
    target().join("nightly")
}

fn of(extent: &Extent) -> String {
    match extent {
        Extent::Everything => "everything".to_owned(),
        Extent::Quick => "the core, the program, memory, SQLite and Redis".to_owned(),
        Extent::Programs(names) => format!("only {}", names.join(", ")),
    }
}

fn simulate(family: &str, histories: u64, began: Duration) -> Result<(), String> {
    let (histories, seed) = (histories.to_string(), (began.as_secs() / 60 * SEEDS_A_MINUTE).to_string());
    let program = ["--quiet", "--release", "-p", "lock-simulation", "--"];
    let asked = ["sim", "--histories", &histories, "--seed", &seed, "--family", family];
    println!("$ {}", asked.join(" "));
    command(&mut cargo("run", &[&program[..], &asked].concat()))
}

/// Returns the present day, in the form of ISO 8601.
fn date() -> String {
    let said = Command::new("date").args(["-u", "+%F"]).output().map(|said| said.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().to_owned()
}
