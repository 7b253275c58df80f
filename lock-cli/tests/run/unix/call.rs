//! Calls of the program.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than any step takes on a busy machine: what has not happened by then never will.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A call that is being prepared.
pub(crate) struct Call {
    command: Command,
    /// Where its input comes from, if it has any.
    stdin: Option<Stdio>,
    /// Where its output goes, if not to the test.
    stdout: Option<Stdio>,
    stderr: Option<Stdio>,
}

/// Prepares a call of `lock` with these arguments, and no server in its environment.
pub(crate) fn lock<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Call {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lock"));
    command.args(args).env_remove("LOCK_URL").env_remove("LOCK_HELD");
    Call::of(command)
}

/// Prepares `lock run --on URL --name NAME FLAGS -- sh -c SCRIPT`.
pub(crate) fn run(url: &str, name: &str, flags: &[&str], script: &str) -> Call {
    let call = ["run", "--on", url, "--name", name].into_iter();
    lock(call.chain(flags.iter().copied()).chain(["--", "sh", "-c", script]))
}

/// Prepares `sh -c SCRIPT`, which finds the program as `$LOCK`, and no server in its environment.
pub(crate) fn shell(script: &str) -> Call {
    program("sh", ["-c", script])
}

/// Prepares a call of another program, which finds ours as `$LOCK`, and no server in its environment.
pub(crate) fn program<S: AsRef<OsStr>>(name: &str, args: impl IntoIterator<Item = S>) -> Call {
    let mut command = Command::new(name);
    command.args(args).env_remove("LOCK_URL").env_remove("LOCK_HELD");
    command.env("LOCK", env!("CARGO_BIN_EXE_lock"));
    Call::of(command)
}

impl Call {
    fn of(command: Command) -> Call {
        Call { command, stdin: None, stdout: None, stderr: None }
    }

    /// Gives the call an open stdin.
    pub(crate) fn with_stdin(self) -> Call {
        Call { stdin: Some(Stdio::piped()), ..self }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Call {
        self.command.env(name, value);
        self
    }

    /// Runs the call in this folder.
    pub(crate) fn within(mut self, folder: &Path) -> Call {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Call {
        self.command.env_remove(name);
        self
    }

    pub(crate) fn stdout(self, to: impl Into<Stdio>) -> Call {
        Call { stdout: Some(to.into()), ..self }
    }

    pub(crate) fn stderr(self, to: impl Into<Stdio>) -> Call {
        Call { stderr: Some(to.into()), ..self }
    }

    /// Ignores this signal from the start.
    pub(crate) fn ignoring(self, signal: &str) -> Call {
        self.after(&format!("trap '' {signal}"))
    }

    /// Redirects an output, written as in a shell.
    pub(crate) fn redirected(self, redirection: &str) -> Call {
        self.after(&format!("exec {redirection}"))
    }

    /// Runs this shell command before the program, in the same process.
    pub(crate) fn after(self, first: &str) -> Call {
        self.by(["sh", "-c", &format!("{first}; exec \"$0\" \"$@\"")])
    }

    /// Starts the program by another one, which gets it as its arguments.
    pub(crate) fn by<'a>(self, starter: impl IntoIterator<Item = &'a str>) -> Call {
        let mut starter = starter.into_iter();
        let mut command = Command::new(starter.next().unwrap());
        command.args(starter).arg(self.command.get_program()).args(self.command.get_args());
        for (name, value) in self.command.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Call { command, ..self }
    }

    /// Starts the call.
    pub(crate) fn start(mut self) -> Running {
        self.command.stdin(self.stdin.unwrap_or_else(Stdio::null));
        self.command.stdout(self.stdout.unwrap_or_else(Stdio::piped));
        self.command.stderr(self.stderr.unwrap_or_else(Stdio::piped));
        let began = Instant::now();
        let mut child = self.command.spawn().unwrap();
        let stdout = lines(child.stdout.take());
        let stderr = lines(child.stderr.take());
        Running { child, stdout, stderr, began }
    }

    /// Runs the call to its end.
    pub(crate) fn finish(self) -> Done {
        self.start().finish()
    }
}

/// A running call. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
    began: Instant,
}

/// A call that has ended, together with every process that it started.
#[derive(Debug)]
pub(crate) struct Done {
    /// The exit status; -n if signal n ended the program itself.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The time since the call of [`Running::finish`].
    pub(crate) took: Duration,
    /// The time since before the call was started.
    pub(crate) lasted: Duration,
}

impl Running {
    /// Returns the next line of stdout.
    pub(crate) fn line(&self) -> String {
        match self.next_line() {
            Some(line) => line,
            None => panic!("the command ended without a line on stdout: {}", rest(&self.stderr)),
        }
    }

    /// Returns the next line of stdout; `None` if every process that could write it has ended.
    pub(crate) fn next_line(&self) -> Option<String> {
        match self.stdout.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line on stdout within the limit"),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Writes a line to stdin.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("the call has an open stdin");
        writeln!(stdin, "{line}").unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns the next line of stderr.
    pub(crate) fn complaint(&self) -> String {
        match self.stderr.recv_timeout(LIMIT) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line on stderr within the limit"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the program ended without a line on stderr"),
        }
    }

    /// Returns when the command printed its last line. The command must print lines as long as it lives.
    pub(crate) fn last_sign_of_life(&self) -> Instant {
        let began = Instant::now();
        let mut last = began;
        while self.next_line().is_some() {
            last = Instant::now();
            assert!(last - began < LIMIT, "the command lives on for {LIMIT:?}");
        }
        last
    }

    /// Returns the time since before the call was started.
    pub(crate) fn lasts(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns whether the program itself has ended, whatever else has its stdout open.
    pub(crate) fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the program and of every process that has its stdout or stderr open.
    pub(crate) fn finish(mut self) -> Done {
        let began = Instant::now();
        eventually("the program ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        let (stdout, stderr) = (rest(&self.stdout), rest(&self.stderr));
        let status = status.code().unwrap_or_else(|| -status.signal().unwrap());
        Done { status, stdout, stderr, took: began.elapsed(), lasted: self.lasts() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the program has ended.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<_> = self.child.wait();
    }
}

impl Done {
    /// Checks that the call ended with this status, and that stderr contains all of these texts.
    #[track_caller]
    pub(crate) fn expect(&self, status: i32, says: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        for what in says {
            assert!(self.stderr.contains(what), "{what:?} is missing in {self:?}");
        }
        let ours = self.stderr.lines().next().is_none_or(|line| line.starts_with("lock: "));
        assert!(says.is_empty() || ours, "{self:?}");
    }
}

/// Waits until `condition` is true.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the lines that come out of `pipe`, until its last writer has closed it. Without a pipe there are none.
fn lines(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let Some(pipe) = pipe else { return receiver };
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn rest(lines: &mpsc::Receiver<String>) -> String {
    let mut text = String::new();
    loop {
        match lines.recv_timeout(LIMIT) {
            Ok(line) => text = text + &line + "\n",
            Err(mpsc::RecvTimeoutError::Disconnected) => return text,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("a process lives on and has the pipe open; output so far: {text}")
            }
        }
    }
}
