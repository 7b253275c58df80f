//! Clients in other processes, which cases stop and kill.

use std::fmt;
use std::io;
use std::time::Duration;

/// Clients of the library can be started in other processes.
pub trait Processes: fmt::Debug + Send + Sync {
    /// Starts this same test program once more, with this further environment variable. It must test the same server.
    ///
    /// # Errors
    ///
    /// If it can't be started.
    fn start(&self, variable: (&'static str, String)) -> io::Result<Box<dyn ChildProcess>>;
}

/// The program `lock` can be run on the server.
pub trait LockProgram: fmt::Debug + Send + Sync {
    /// Returns the URL at which the program finds the server that all cases share.
    fn url(&self) -> String;

    /// Starts `lock run`.
    ///
    /// # Errors
    ///
    /// If the process can't be started.
    fn run(&self, command: &Command<'_>) -> io::Result<Box<dyn ChildProcess>>;
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
    /// The wait for the lock.
    pub wait: Wait,
    /// The program that runs under the lock, and its arguments.
    pub run: &'a [&'a str],
    /// The time zone of the process, as POSIX writes the value of `TZ` (`<+14>-14`), if it isn't this process's.
    pub time_zone: Option<&'a str>,
}

/// A holder waits for its lock this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as it takes.
    Forever,
    /// This long.
    AtMost(Duration),
    /// Not at all.
    No,
}

/// A process that holds locks and prints lines. Dropping it kills it and everything that it has started.
pub trait ChildProcess: fmt::Debug + Send {
    /// Stops it (SIGSTOP), and waits until it is stopped.
    ///
    /// # Errors
    ///
    /// If it has ended.
    fn pause(&self) -> io::Result<()>;

    /// Lets it continue (SIGCONT).
    ///
    /// # Errors
    ///
    /// If the signal can't be sent.
    fn resume(&self) -> io::Result<()>;

    /// Kills this process alone (-9), and waits until it is dead.
    ///
    /// # Errors
    ///
    /// If the signal can't be sent.
    fn kill(&self) -> io::Result<()>;

    /// Returns the next line that it prints.
    ///
    /// # Errors
    ///
    /// If there is no line within `limit`, or if there will be none.
    fn line(&self, limit: Duration) -> io::Result<String>;

    /// Writes this line to it.
    ///
    /// # Errors
    ///
    /// If it reads no more.
    fn tell(&mut self, line: &str) -> io::Result<()>;

    /// Waits until it has ended and everything that it started has closed its output.
    ///
    /// # Errors
    ///
    /// If that takes longer than `limit`.
    fn finish(self: Box<Self>, limit: Duration) -> io::Result<Finished>;
}

/// The result of a process that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its end. `lock run` ends with 75 if the lock was not acquired, with 74 if it was lost, otherwise as its
    /// command did.
    pub ended: Ended,
    /// The lines of its standard output that had not been read.
    pub stdout: Vec<String>,
    /// Its standard error.
    pub stderr: String,
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}
