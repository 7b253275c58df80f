//! Tests that need a whole machine: time namespaces, mounts, disks that are full or read-only, processes that are
//! killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod disk;
#[cfg(target_os = "linux")]
mod killed;
mod log;
mod mounts;
mod processes;
#[cfg(target_os = "linux")]
mod time;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use libtest_mimic::Arguments;
use lock_conformance::claims::{self, Terms};
use lock_conformance::rules;
use lock_core::Client;
use lock_core::driver::{Claim, Queueing};
use lock_test_servers::{self as servers, Absence, Holder, Program, Wait};

/// The reason why a test can't be run here.
type NotRun = String;

type Outcome = Result<(), NotRun>;

type Named = (&'static str, fn() -> Outcome);

const TESTS: &[Named] = &[
    #[cfg(target_os = "linux")]
    ("a_time_namespace_changes_no_lease", time::a_time_namespace_changes_no_lease),
    #[cfg(target_os = "linux")]
    ("a_time_namespace_of_children_changes_no_lease", time::a_time_namespace_of_children_changes_no_lease),
    ("a_boot_id_not_from_the_kernel_is_refused", mounts::a_boot_id_not_from_the_kernel_is_refused),
    ("a_file_that_is_mounted_by_itself_is_refused", mounts::a_file_that_is_mounted_by_itself_is_refused),
    ("a_full_disk_grants_nothing_and_is_survived", disk::a_full_disk_grants_nothing_and_is_survived),
    ("a_read_only_disk_is_said_to_be_one", disk::a_read_only_disk_is_said_to_be_one),
    ("a_log_that_was_removed_makes_no_second_holder", log::a_log_that_was_removed_makes_no_second_holder),
    ("a_silent_holder_keeps_its_lock_without_log", log::a_silent_holder_keeps_its_lock_without_log),
    (
        "a_removed_database_is_used_until_its_holder_knows",
        log::a_removed_database_is_used_until_its_holder_knows,
    ),
    ("a_restored_log_is_used_on", log::a_restored_log_is_used_on),
    ("a_log_that_was_emptied_makes_no_second_holder", log::a_log_that_was_emptied_makes_no_second_holder),
    #[cfg(target_os = "linux")]
    ("a_fork_uses_no_files", log::a_fork_uses_no_files),
    ("an_index_without_its_log_is_ignored", log::an_index_without_its_log_is_ignored),
    #[cfg(target_os = "linux")]
    (
        "processes_killed_at_any_moment_leave_a_sound_file",
        killed::processes_killed_at_any_moment_leave_a_sound_file,
    ),
    (
        "a_release_knows_whether_another_process_waits",
        processes::a_release_knows_whether_another_process_waits,
    ),
    ("processes_that_come_at_once_create_one_table", processes::processes_that_come_at_once_create_one_table),
];

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if time::is_another_process() {
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, rules::judged("lock-sql", TESTS.iter().copied())).exit_code()
}

const LIMIT: Duration = Duration::from_secs(20);

fn program() -> Result<Program, NotRun> {
    Program::find().map_err(Absence::reason)
}

fn url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

fn run(command: &[&str]) -> Result<Output, NotRun> {
    let not_run = |e: std::io::Error| format!("{} can't be run: {e}", command[0]);
    Command::new(command[0]).args(&command[1..]).output().map_err(not_run)
}

/// Runs a command that needs rights that this user may lack.
fn rights(command: &[&str]) -> Result<String, NotRun> {
    let output = run(command)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// On two threads: a guard is renewed while a test waits for a program.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.unwrap().block_on(work)
}

fn hold(program: &Program, url: &str, name: &str, wait: Wait, script: &str) -> Box<Holder> {
    hold_for(Duration::from_secs(1), program, url, name, wait, script)
}

fn hold_for(
    ttl: Duration,
    program: &Program,
    url: &str,
    name: &str,
    wait: Wait,
    script: &str,
) -> Box<Holder> {
    let command = servers::Command { on: url, name, ttl, wait, run: &["sh", "-c", script], time_zone: None };
    program.run(&command).unwrap()
}

fn lock_path() -> Result<String, NotRun> {
    let this = std::env::current_exe().unwrap();
    let beside = this.parent().and_then(Path::parent).unwrap().join("lock");
    let named = std::env::var_os("LOCK_BIN").map(PathBuf::from);
    Ok(named.unwrap_or(beside).display().to_string())
}

fn claim(client: &Client, name: &str) -> Box<dyn Claim> {
    let patience = Duration::from_secs(2);
    claims::claim(client, name, Terms { ttl: LIMIT, patience, waits: Queueing::No, label: "a test" })
}
