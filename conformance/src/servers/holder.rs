//! The program `lock` as a process that holds a lock, and can be killed and stopped like any other.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::catalogue::LOCK_BIN;
use super::process::{Ended, Process};
use super::requirement::Absence;

/// The program `lock`.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    time_zone: Option<&'static str>,
}

impl Program {
    /// The one that `LOCK_BIN` names, else the one beside the running test program (`target/debug/lock`).
    pub fn find() -> Result<Program, Absence> {
        if cfg!(not(unix)) {
            return Err(Absence::NotRun("holders are started on Unix only".to_owned()));
        }
        if let Some(path) = std::env::var_os(LOCK_BIN).filter(|path| !path.is_empty()).map(PathBuf::from) {
            let missing = || Absence::Failure(format!("{LOCK_BIN} names no file: {}", path.display()));
            return if path.is_file() { Ok(Program::at(path)) } else { Err(missing()) };
        }
        let beside = beside_this_program().filter(|path| path.is_file());
        let why = "the program lock is not built (cargo build -p lock-cli)";
        beside.map(Program::at).ok_or_else(|| Absence::NotRun(why.to_owned()))
    }

    /// The one in this file.
    pub fn at(path: impl Into<PathBuf>) -> Program {
        Program { path: path.into(), time_zone: None }
    }

    /// The same where the clocks say something else: `<+14>-14`, as POSIX writes the value of `TZ`.
    pub fn in_time_zone(self, time_zone: &'static str) -> Program {
        Program { time_zone: Some(time_zone), ..self }
    }

    /// Starts `lock run`.
    pub fn run(&self, command: &Command<'_>) -> io::Result<Holder> {
        let mut lock = std::process::Command::new(&self.path);
        lock.envs(self.time_zone.map(|time_zone| ("TZ", time_zone)));
        lock.args(["run", "--on", command.on, "--name", command.name]);
        lock.args(["--ttl", &millis(command.ttl)]);
        match command.wait {
            Wait::Forever => {}
            Wait::AtMost(limit) => drop(lock.args(["--wait", &millis(limit)])),
            Wait::No => drop(lock.arg("--no-wait")),
        }
        lock.arg("--").args(command.run);
        Holder::spawn(lock)
    }
}

/// Test programs stand in `target/debug/deps`, examples in `target/debug/examples`, programs in `target/debug`.
fn beside_this_program() -> Option<PathBuf> {
    let this = std::env::current_exe().ok()?;
    let folder = this.parent()?;
    let nested = [OsStr::new("deps"), OsStr::new("examples")].map(Some).contains(&folder.file_name());
    let folder = if nested { folder.parent()? } else { folder };
    Some(folder.join(format!("lock{}", std::env::consts::EXE_SUFFIX)))
}

fn millis(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

/// What `lock run` is told.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The server's URL.
    pub on: &'a str,
    /// The lock's name.
    pub name: &'a str,
    /// The lease.
    pub ttl: Duration,
    /// Whether it waits for the lock.
    pub wait: Wait,
    /// What runs under the lock: a program and its arguments.
    pub run: &'a [&'a str],
}

/// Whether a holder waits for its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as it takes.
    Forever,
    /// This long.
    AtMost(Duration),
    /// Not at all.
    No,
}

/// `lock run` as a child process. Dropping it kills it and its process group.
#[derive(Debug)]
pub struct Holder {
    process: Process,
    stdin: ChildStdin,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Holder {
    /// Starts something else that holds locks and prints lines.
    pub(crate) fn spawn(mut lock: std::process::Command) -> io::Result<Holder> {
        lock.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut lock)?;
        let child = process.child();
        let stdin = child.stdin.take().expect("stdin was asked for as a pipe");
        let out = child.stdout.take().expect("stdout was asked for as a pipe");
        let mut err = child.stderr.take().expect("stderr was asked for as a pipe");
        let (lines, stdout) = channel();
        thread::spawn(move || {
            // Ends with the pipe, or with the holder that nobody listens to any more.
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        let (text, stderr) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // What came before an error is still worth showing.
            let _ = err.read_to_end(&mut bytes);
            text.send(String::from_utf8_lossy(&bytes).into_owned())
        });
        Ok(Holder { process, stdin, stdout, stderr })
    }

    /// Its process: to be killed (-9), paused, resumed, asked to end, waited for.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The next line that the command prints: how a case learns that the lock is held. An error after the `limit`, and
    /// when there will be none.
    pub fn line(&self, limit: Duration) -> io::Result<String> {
        self.stdout.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                io::Error::new(io::ErrorKind::TimedOut, format!("no line within {limit:?}"))
            }
            RecvTimeoutError::Disconnected => io::ErrorKind::UnexpectedEof.into(),
        })
    }

    /// What the command prints when it is told this line: how a case learns that it has not been ended. Its lock has
    /// not been released then.
    pub fn answer_to(&mut self, line: &str, limit: Duration) -> io::Result<String> {
        self.tell(line)?;
        self.line(limit)
    }

    /// Writes this line to the command, which need not be there any more.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}")
    }

    /// Waits until it has ended and everything it started has closed its output.
    pub fn finish(self, limit: Duration) -> io::Result<Finished> {
        let deadline = Instant::now() + limit;
        let left = || deadline.saturating_duration_since(Instant::now());
        let late = || io::Error::new(io::ErrorKind::TimedOut, format!("not finished within {limit:?}"));
        let ended = self.process.wait(limit)?.ok_or_else(late)?;
        let stderr = self.stderr.recv_timeout(left()).map_err(|_| late())?;
        let mut stdout = Vec::new();
        loop {
            match self.stdout.recv_timeout(left()) {
                Ok(line) => stdout.push(line),
                Err(RecvTimeoutError::Disconnected) => return Ok(Finished { ended, stdout, stderr }),
                Err(RecvTimeoutError::Timeout) => return Err(late()),
            }
        }
    }
}

/// What is left of a holder.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended: 75 if the lock was not acquired, 74 if it was lost, else as the command did.
    pub ended: Ended,
    /// The lines of its standard output that had not been read.
    pub stdout: Vec<String>,
    /// Its standard error.
    pub stderr: String,
}
