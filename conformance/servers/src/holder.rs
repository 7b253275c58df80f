//! The program `lock` as a process that holds a lock. It can be killed and stopped like any other process.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use lock_conformance::harness::{ChildProcess, Command, Finished, LockProgram, Wait};
use lock_conformance::{Ability, Missing};

use super::catalogue::LOCK_BIN;
use super::pipes::Pipes;
use super::process::Process;
use super::requirement::Absence;

/// The program `lock`.
#[derive(Clone, Debug)]
pub struct Program(PathBuf);

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
            return if path.is_file() { Ok(Program(path)) } else { Err(missing()) };
        }
        let beside = beside_this_program().filter(|path| path.is_file());
        let why = "the program lock is not built (cargo build -p lock-cli)";
        beside.map(Program).ok_or_else(|| Absence::NotRun(why.to_owned()))
    }

    /// Returns the ability to run it on the server at `url`.
    ///
    /// # Errors
    ///
    /// The reason, if there is no such program.
    ///
    /// # Panics
    ///
    /// If `LOCK_BIN` names no file.
    pub fn on(url: String) -> Ability<dyn LockProgram> {
        let program = Program::find().map_err(|absence| Missing::because(absence.reason()))?;
        Ok(Arc::new(OnServer { program, url }))
    }

    /// Starts `lock run`.
    ///
    /// # Errors
    ///
    /// If the process can't be started.
    pub fn run(&self, command: &Command<'_>) -> io::Result<Box<Holder>> {
        let mut lock = std::process::Command::new(&self.0);
        lock.envs(command.time_zone.map(|time_zone| ("TZ", time_zone)));
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

/// The program, for cases that run it on one server.
#[derive(Debug)]
struct OnServer {
    program: Program,
    url: String,
}

impl LockProgram for OnServer {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn run(&self, command: &Command<'_>) -> io::Result<Box<dyn ChildProcess>> {
        Ok(self.program.run(command)?)
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
    pub(crate) fn spawn(mut lock: std::process::Command) -> io::Result<Box<Holder>> {
        let (process, Pipes { stdin, stdout: out, stderr: mut err }) = Process::spawn_with_pipes(&mut lock)?;
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
        Ok(Box::new(Holder { process, stdin, stdout, stderr }))
    }

    /// Returns its process, which can be killed (-9), paused, resumed, asked to end, and waited for.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

impl ChildProcess for Holder {
    fn pause(&self) -> io::Result<()> {
        self.process.pause()
    }

    fn resume(&self) -> io::Result<()> {
        self.process.resume()
    }

    fn kill(&self) -> io::Result<()> {
        self.process.kill()
    }

    fn line(&self, limit: Duration) -> io::Result<String> {
        self.stdout.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                io::Error::new(io::ErrorKind::TimedOut, format!("no line within {limit:?}"))
            }
            RecvTimeoutError::Disconnected => io::ErrorKind::UnexpectedEof.into(),
        })
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stdin, "{line}")
    }

    fn finish(self: Box<Self>, limit: Duration) -> io::Result<Finished> {
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
