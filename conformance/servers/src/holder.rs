//! The program `lock` as a process that holds a lock. It can be killed and stopped like any other process.

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
    /// Finds the program: the one that `LOCK_BIN` names, otherwise the one beside the running test program
    /// (`target/debug/lock`).
    ///
    /// # Errors
    ///
    /// If there is none, or `LOCK_BIN` names no file.
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

    /// Returns the program with this path.
    pub fn at(path: impl Into<PathBuf>) -> Program {
        Program { path: path.into(), time_zone: None }
    }

    /// Returns the same program in a time zone, as POSIX writes the value of `TZ`: `<+14>-14`.
    pub fn in_time_zone(self, time_zone: &'static str) -> Program {
        Program { time_zone: Some(time_zone), ..self }
    }

    /// Starts `lock run`.
    ///
    /// # Errors
    ///
    /// If the process can't be started.
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

/// Test programs are in `target/debug/deps`, examples in `target/debug/examples`, other programs in `target/debug`.
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

/// The arguments of `lock run`.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The server's URL.
    pub on: &'a str,
    /// The lock's name.
    pub name: &'a str,
    /// The ttl of the lease.
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
    /// Starts another program that holds locks and prints lines.
    pub(crate) fn spawn(mut lock: std::process::Command) -> io::Result<Holder> {
        lock.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut lock)?;
        let child = process.child();
        let stdin = child.stdin.take().expect("stdin was asked for as a pipe");
        let out = child.stdout.take().expect("stdout was asked for as a pipe");
        let mut err = child.stderr.take().expect("stderr was asked for as a pipe");
        let (lines, stdout) = channel();
        thread::spawn(move || {
            // The thread ends with the pipe, or when the holder that receives the lines is dropped.
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        let (text, stderr) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // The output before an error is still worth showing.
            let _ = err.read_to_end(&mut bytes);
            text.send(String::from_utf8_lossy(&bytes).into_owned())
        });
        Ok(Holder { process, stdin, stdout, stderr })
    }

    /// Returns its process, which can be killed (-9), paused, resumed, asked to end, and waited for.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the next line that the command prints. A case learns in this way that the lock is held.
    ///
    /// # Errors
    ///
    /// If there is no line within `limit`, or if there will be none.
    pub fn line(&self, limit: Duration) -> io::Result<String> {
        self.stdout.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                io::Error::new(io::ErrorKind::TimedOut, format!("no line within {limit:?}"))
            }
            RecvTimeoutError::Disconnected => io::ErrorKind::UnexpectedEof.into(),
        })
    }

    /// Sends the command this line, and returns what it prints then. A case learns in this way that the command has not
    /// been ended: its lock has not been released then.
    ///
    /// # Errors
    ///
    /// If the command reads no more, or as in [`line`](Self::line).
    pub fn answer_to(&mut self, line: &str, limit: Duration) -> io::Result<String> {
        self.tell(line)?;
        self.line(limit)
    }

    /// Writes this line to the command, which may have ended.
    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}")
    }

    /// Waits until it has ended and everything that it started has closed its output.
    ///
    /// # Errors
    ///
    /// If that takes longer than `limit`.
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

/// The result of a holder that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended: 75 if the lock was not acquired, 74 if it was lost, otherwise as the command did.
    pub ended: Ended,
    /// The lines of its standard output that had not been read.
    pub stdout: Vec<String>,
    /// Its standard error.
    pub stderr: String,
}
