//! `etcdctl lock` without a driver: one process for each lock.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use async_trait::async_trait;
use lock_conformance::timing::Returned;
use lock_test_servers::Ended;

use super::LIMIT;
use super::cases::Storm;
use super::contender::Contender;
use super::foreign::Foreign;
use super::kind::Kind;
use super::line_process::LineProcess;

/// A script that adds one to the number in the file that its argument names, with a pause between reading and writing.
const INCREMENT: &str = r#"read -r n <"$1" && sleep 0.001 && printf '%10d\n' $((n + 1)) 1<>"$1""#;

/// Starts processes that hold a lock on these servers.
#[derive(Debug)]
pub(super) struct Etcdctl {
    servers: String,
    holder: Option<LineProcess>,
}

impl Etcdctl {
    pub(super) fn new(servers: &str) -> Etcdctl {
        Etcdctl { servers: servers.to_owned(), holder: None }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("etcdctl");
        command.args(["--endpoints", &self.servers]);
        command
    }

    fn holder(&mut self) -> &mut LineProcess {
        self.holder.as_mut().expect("it was asked for")
    }
}

impl fmt::Display for Etcdctl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Kind::Etcdctl.fmt(f)
    }
}

#[async_trait]
impl Contender for Etcdctl {
    /// Starts a process that prints its key when it holds the lock, and holds it until it is asked to end.
    async fn ask(&mut self, name: &str) {
        let holder = LineProcess::spawn(self.command().args(["lock", name]));
        self.holder = Some(holder.unwrap_or_else(|e| panic!("etcdctl: {e}")));
    }

    fn has_it(&mut self) -> bool {
        self.holder().has_line()
    }

    async fn held(&mut self) {
        if let Err(why) = self.holder().line(LIMIT).await {
            panic!("etcdctl: {why}");
        }
    }

    async fn attempt(&mut self, _: &str) -> Option<bool> {
        None
    }

    async fn release(&mut self, _: &str) {
        let holder = self.holder.take().expect("it was asked for");
        let end = move || holder.process().terminate(LIMIT);
        blocking(end).await.unwrap_or_else(|e| panic!("etcdctl: {e}"));
    }

    /// Starts one process for each turn.
    async fn storm(&mut self, name: &str, file: &Path, storm: Storm) -> u64 {
        let end = Instant::now() + storm.length;
        let mut turns = 0;
        while Instant::now() < end {
            let mut command = self.command();
            command.args(["lock", name, "--", "sh", "-c", INCREMENT, "increment"]).arg(file);
            let turn = LineProcess::spawn(&mut command).unwrap_or_else(|e| panic!("etcdctl: {e}"));
            let ended = blocking(move || {
                let ended = turn.process().wait(LIMIT);
                // Needed only if it has failed.
                let why = turn.stderr_lines();
                (ended, why)
            });
            match ended.await {
                (Ok(Some(Ended::Status(0))), _) => turns += 1,
                (ended, why) => panic!("a turn of etcdctl's: {ended:?}{why}"),
            }
            tokio::time::sleep(storm.pause).await;
        }
        turns
    }
}

#[async_trait]
impl Foreign for Etcdctl {
    async fn queue(&mut self, name: &str) -> u64 {
        let mut command = self.command();
        command.args(["get", "--prefix", "--keys-only", &format!("{name}/")]);
        let output = blocking(move || command.output()).await.unwrap_or_else(|e| panic!("etcdctl: {e}"));
        assert!(output.status.success(), "etcdctl: {}", String::from_utf8_lossy(&output.stderr));
        let keys = String::from_utf8_lossy(&output.stdout).into_owned();
        keys.lines().filter(|line| !line.is_empty()).count() as u64
    }

    async fn release_fails(&mut self, _: &str) {
        unreachable!("its locks end with its processes")
    }
}

/// Runs work that blocks its thread for a while.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.returned()
}
