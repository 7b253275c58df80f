//! Runs a command with a time limit.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
    /// It was killed at the limit.
    TimedOut,
}

/// How a command ended, and all of its output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) output: String,
}

/// The pause between two checks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Runs a command to its end, or kills it at the `limit`. Its output goes to the file `output`, and is read from there.
pub(crate) fn run(command: &mut Command, limit: Duration, output: &Path) -> Result<Ended, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |e: io::Error| format!("{program}: {e}");
    let file = File::create(output).map_err(failed)?;
    let both = file.try_clone().map_err(failed)?;
    let mut child = command.stdin(Stdio::null()).stdout(file).stderr(both).spawn().map_err(failed)?;
    let deadline = Instant::now() + limit;
    let end = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => break End::Success,
            Some(_) => break End::Failure,
            None if Instant::now() >= deadline => {
                // A test program's servers end with it: each waits for the end of a pipe that the program holds.
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                break End::TimedOut;
            }
            None => thread::sleep(LOOK),
        }
    };
    let output = String::from_utf8_lossy(&fs::read(output).map_err(failed)?).into_owned();
    Ok(Ended { end, output })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Ended {
        let output = crate::workspace::programs().join(format!("bounded-test-{}", script.len()));
        run(Command::new("sh").args(["-c", script]), limit, &output).expect("there is a shell")
    }

    #[test]
    fn an_end_is_told_with_what_was_printed() {
        let ended = sh("echo out; echo err >&2; exit 3", Duration::from_secs(20));
        assert_eq!((ended.end, ended.output.as_str()), (End::Failure, "out\nerr\n"));
        assert_eq!(sh("true", Duration::from_secs(20)).end, End::Success);
    }

    #[test]
    fn what_takes_too_long_is_killed() {
        let began = Instant::now();
        assert_eq!(sh("exec sleep 60", Duration::from_millis(100)).end, End::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
