//! Runs test programs side by side. The output of each goes to a file of its own. The output of a program that failed
//! is shown when all have ended.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::targets::Lane;

/// A program that is to run.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) command: Command,
    pub(crate) lane: Lane,
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) took: Duration,
    /// The error says how it ended.
    pub(crate) outcome: Result<(), String>,
}

/// Runs all programs, the longest first: `waiting` of those that wait at a time, and one of those that compute. When all
/// of these have ended, one more that waits takes their place: it takes less of the machine. Their output goes through
/// files of `folder`.
pub(crate) fn run(mut work: Vec<Work>, waiting: usize, folder: &Path) -> Vec<Ran> {
    work.sort_by_key(|work| !is_long(&work.name));
    let (waits, computes): (Vec<_>, Vec<_>) = work.into_iter().partition(|work| work.lane == Lane::Waits);
    let [waits, computes] = [waits, computes].map(|work| Mutex::new(work.into_iter()));
    let computes_first = [&computes, &waits];
    let ran = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for queues in [&computes_first[1..]].repeat(waiting).into_iter().chain([&computes_first[..]]) {
            let ran = &ran;
            let next = || {
                queues.iter().find_map(|queue| queue.lock().unwrap_or_else(PoisonError::into_inner).next())
            };
            scope.spawn(move || {
                while let Some(work) = next() {
                    let done = one(work, folder);
                    println!("{}", headline(&done));
                    ran.lock().unwrap_or_else(PoisonError::into_inner).push(done);
                }
            });
        }
    });
    let ran = ran.into_inner().unwrap_or_else(PoisonError::into_inner);
    for failed in ran.iter().filter(|ran| ran.outcome.is_err()) {
        println!("\n--> {}\n{}", failed.name, without_passed(&said(&failed.name, folder)));
    }
    ran
}

/// Returns whether it takes minutes.
fn is_long(name: &str) -> bool {
    ["mysql", "lock-redis: interop", "lock-mongo: conformance", "lock-cli: run", "lock-redlock: conformance"]
        .iter()
        .any(|long| name.contains(long))
}

fn one(Work { name, mut command, .. }: Work, folder: &Path) -> Ran {
    let began = Instant::now();
    let outcome = output(&name, folder)
        .and_then(|file| command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).status())
        .map_err(|error| error.to_string())
        .and_then(|status| if status.success() { Ok(()) } else { Err(status.to_string()) });
    Ran { name, took: began.elapsed(), outcome }
}

fn output(name: &str, folder: &Path) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    File::create(folder.join(file_name(name)))
}

fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{}.txt", name.chars().map(plain).collect::<String>())
}

fn said(name: &str, folder: &Path) -> String {
    String::from_utf8_lossy(&fs::read(folder.join(file_name(name))).unwrap_or_default()).into_owned()
}

fn headline(ran: &Ran) -> String {
    let took = ran.took.as_secs_f64();
    match &ran.outcome {
        Ok(()) => format!("passed  {} in {took:.1} s", ran.name),
        Err(why) => format!("FAILED  {}: {why} after {took:.1} s", ran.name),
    }
}

/// Returns the output of a failed program without the tests that passed: they would hide the one that failed.
fn without_passed(said: &str) -> String {
    let passed = |line: &str| line.starts_with("test ") && line.ends_with(" ok");
    said.lines().filter(|line| !passed(line)).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Work, run, without_passed};
    use crate::targets::Lane;

    fn work(name: &str, script: &str, lane: Lane) -> Work {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Work { name: name.to_owned(), command, lane }
    }

    #[test]
    #[cfg(unix)]
    fn the_longest_waits_first_and_each_reports_its_end() {
        let folder = std::env::temp_dir().join(format!("lock-xtask-beside-{}", std::process::id()));
        let all = vec![
            work("short", "echo short >&2; exit 3", Lane::Waits),
            work("lock-cli: run", "echo long", Lane::Waits),
            work("b", "exit 0", Lane::Computes),
            work("gone", "kill -s KILL $$", Lane::Computes),
        ];
        let ran = run(all, 0, &folder);
        let ended = ran.iter().map(|ran| (&*ran.name, ran.outcome.is_ok()));
        let first_to_last = [("b", true), ("gone", false), ("lock-cli: run", true), ("short", false)];
        assert_eq!(ended.collect::<Vec<_>>(), first_to_last);
        assert!(ran[3].outcome.as_ref().is_err_and(|why| why.contains('3')), "{ran:?}");
        assert_eq!(std::fs::read_to_string(folder.join("short.txt")).unwrap(), "short\n");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_that_failed_is_shown_without_what_passed() {
        let said = "test a ... ok\ntest b ... FAILED\nb is wrong\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n\
                    test result: ok. 30 passed; 0 failed; 0 ignored\n";
        assert_eq!(
            without_passed(said).lines().take(2).collect::<Vec<_>>(),
            ["test b ... FAILED", "b is wrong"]
        );
    }
}
