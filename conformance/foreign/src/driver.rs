//! A program of this project that drives another library's lock. `conformance/foreign/README.md` describes its lines.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use async_trait::async_trait;
use lock_test_servers::Absence;
use lock_test_servers::catalogue::built;

use super::LIMIT;
use super::cases::Storm;
use super::contender::Contender;
use super::foreign::{Foreign, parts, place};
use super::kind::Kind;
use super::line_process::LineProcess;

/// A running driver.
#[derive(Debug)]
pub(super) struct Driver {
    kind: Kind,
    /// The URL of the server, as this library has it.
    url: String,
    process: LineProcess,
    /// The token of the lock that it holds, if its locks have tokens.
    token: Option<u64>,
}

impl Driver {
    /// Starts a driver that is built, and waits until it is connected.
    pub(super) async fn start(kind: Kind, url: &str) -> Result<Driver, Absence> {
        let folder = folder(kind.listing().name).expect("`find` has shown that it is built");
        let failure = |why: String| Absence::Failure(format!("{kind} did not start: {why}"));
        let mut command = command(kind, &folder);
        let process = LineProcess::spawn(command.arg(parts(url).0).args(kind.lock()).current_dir(&folder));
        let mut process = process.map_err(|e| failure(e.to_string()))?;
        match process.line(LIMIT).await {
            Ok(line) if line == "ready" => Ok(Driver { kind, url: url.to_owned(), process, token: None }),
            Ok(line) => Err(failure(line)),
            Err(why) => Err(failure(why)),
        }
    }

    /// Tells it to do something with the lock of that name. `rest` is the rest of the line.
    fn tell(&mut self, what: &str, name: &str, rest: &str) {
        let line = format!("{what} {}{rest}", place(self.kind, &self.url, name));
        self.process.tell(&line).unwrap_or_else(|e| panic!("{self} can't be told {line:?}: {e}"));
    }

    async fn answer(&mut self, limit: Duration) -> String {
        self.process.line(limit).await.unwrap_or_else(|why| panic!("{self}: {why}"))
    }

    /// Returns whether this answer says that the lock is held, and keeps the token that it has then.
    fn is_held(&mut self, answer: &str) -> bool {
        let Some(token) = answer.strip_prefix("held") else { return false };
        self.token = token.trim_start().parse().ok();
        token.is_empty() || self.token.is_some()
    }

    async fn number(&mut self, word: &str, limit: Duration) -> u64 {
        let answer = self.answer(limit).await;
        let number = answer.strip_prefix(word).and_then(|number| number.trim_start().parse().ok());
        number.unwrap_or_else(|| panic!("{self}: {answer}"))
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

#[async_trait]
impl Contender for Driver {
    async fn ask(&mut self, name: &str) {
        self.tell("acquire", name, "");
    }

    fn has_it(&mut self) -> bool {
        self.process.has_line()
    }

    async fn held(&mut self) {
        let answer = self.answer(LIMIT).await;
        assert!(self.is_held(&answer), "{}: {answer}", self.kind);
    }

    async fn attempt(&mut self, name: &str) -> Option<bool> {
        self.tell("try", name, "");
        let answer = self.answer(LIMIT).await;
        let is_held = self.is_held(&answer);
        assert!(is_held || answer == "busy", "{}: {answer}", self.kind);
        Some(is_held)
    }

    fn token(&self) -> Option<u64> {
        self.token
    }

    async fn release(&mut self, name: &str) {
        self.tell("release", name, "");
        assert_eq!(self.answer(LIMIT).await, "released", "{}", self.kind);
    }

    async fn storm(&mut self, name: &str, file: &Path, storm: Storm) -> u64 {
        let (length, pause) = (storm.length.as_secs_f64(), storm.pause.as_secs_f64());
        self.tell("storm", name, &format!(" {} {length} {pause}", file.display()));
        self.number("done", storm.length + LIMIT).await
    }
}

#[async_trait]
impl Foreign for Driver {
    async fn queue(&mut self, name: &str) -> u64 {
        self.tell("queue", name, "");
        self.number("queue", LIMIT).await
    }

    async fn release_fails(&mut self, name: &str) {
        self.tell("release", name, "");
        let answer = self.answer(LIMIT).await;
        assert!(answer.starts_with("error "), "{}: {answer}", self.kind);
    }
}

/// Returns the folder of a driver: `interop/NAME`. `None` if there is none.
pub(super) fn folder(name: &str) -> Option<PathBuf> {
    built("interop", name)
}

/// Returns the command that starts the driver in its folder, without its argument.
fn command(kind: Kind, folder: &Path) -> Command {
    match kind {
        Kind::EtcdGo | Kind::Rslock | Kind::Redsync | Kind::Redislock => Command::new(folder.join("driver")),
        Kind::Curator
        | Kind::RedissonLock
        | Kind::RedissonFenced
        | Kind::RedissonSpin
        | Kind::RedissonFair => {
            let mut java = Command::new("java");
            java.args(["-XX:+UseSerialGC", "-Xmx256m", "-cp", "classes:lib/*", "Driver"]);
            java
        }
        Kind::Kazoo | Kind::RedisPy => {
            let mut python = Command::new("python3");
            python.env("PYTHONPATH", "lib").arg("driver.py");
            python
        }
        Kind::NodeRedlock => {
            let mut node = Command::new("node");
            node.arg("driver.js");
            node
        }
        Kind::Etcdctl => unreachable!("it has no driver"),
    }
}
