//! Starts and controls another process of a workload.

use std::process::Stdio;
use std::time::Duration;

use lock_core::toolkit::Location;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

use crate::Outcome;
use crate::hold::Idle;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;
use crate::workloads::orders::Order;
use crate::workloads::replies::Reply;
use crate::workloads::turns::Turns;

/// Another process of a subject. It ends when this is dropped.
pub(super) struct OtherProcess {
    orders: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    /// Goes before the process: it must not kill another one that has got its id.
    _watch: Option<Child>,
    process: Child,
}

impl OtherProcess {
    pub(super) async fn start(kind: Kind, url: &str, name: &str) -> Outcome<OtherProcess> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("hand-over-side")
            // As many as this process has.
            .args(["--threads", &Handle::current().metrics().num_workers().to_string()]);
        OtherProcess::begin(command, &format!("{}\n{name}\n{url}\n", kind.as_str())).await
    }

    /// Starts the driver of another library's lock, with these names.
    pub(super) async fn driver(peer: Peer, url: &str, names: &[String]) -> Outcome<OtherProcess> {
        let program = peer.program().ok_or_else(|| format!("{} has no driver", peer.name()))?;
        // The parameters of the URL are for our backend.
        let (names, location) = (names.join(" "), Location::parse(url)?);
        let head = format!("{}\n{names}\n{}\n", peer.name(), location.base());
        let mut driver = OtherProcess::begin(program.command()?, &head).await?;
        driver._watch = driver.process.id().map(watch).transpose()?;
        Ok(driver)
    }

    /// Starts a process, tells it these lines, and waits until it is ready.
    async fn begin(mut command: Command, head: &str) -> Outcome<OtherProcess> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let (Some(orders), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the other process has no pipes".into());
        };
        let replies = BufReader::new(replies).lines();
        let mut other = OtherProcess { orders, replies, _watch: None, process };
        // Not in its arguments: other users can see those, and the URL may hold a password.
        other.say(head).await?;
        match other.reply().await? {
            Reply::Ready => Ok(other),
            reply => Err(format!("the other process began with {reply:?}").into()),
        }
    }

    pub(super) async fn tell(&mut self, order: Order) -> Outcome<()> {
        self.say(&format!("{order}\n")).await
    }

    pub(super) async fn granted(&mut self) -> Outcome<Duration> {
        match self.reply().await? {
            Reply::Granted(at) => Ok(at),
            reply => Err(format!("the other process was not granted the lock: {reply:?}").into()),
        }
    }

    /// Orders a release, and returns when it began.
    pub(super) async fn release(&mut self) -> Outcome<Duration> {
        self.tell(Order::Release).await?;
        loop {
            match self.reply().await? {
                Reply::Released(at) => return Ok(at),
                // The late reply to an acquisition that belongs to a round trip which failed.
                Reply::Granted(_) => {}
                reply => {
                    return Err(
                        format!("the other process had to release the lock, but answered {reply:?}").into()
                    );
                }
            }
        }
    }

    /// Returns what each of its contenders did, once they have competed.
    pub(super) async fn competed(&mut self) -> Outcome<Vec<Turns>> {
        match self.reply().await? {
            Reply::Competed(contenders) => Ok(contenders),
            reply => Err(format!("the other process did not compete for the lock: {reply:?}").into()),
        }
    }

    /// Stops it where it stands: a virtual machine goes on to compile and to collect garbage after its turn, and other
    /// subjects would be measured beside that.
    #[cfg(unix)]
    pub(super) fn stop(&self) -> Outcome<()> {
        self.signal(rustix::process::Signal::STOP)
    }

    #[cfg(not(unix))]
    pub(super) fn stop(&self) -> Outcome<()> {
        Ok(())
    }

    /// Lets it go on after a stop.
    #[cfg(unix)]
    pub(super) fn go_on(&self) -> Outcome<()> {
        self.signal(rustix::process::Signal::CONT)
    }

    #[cfg(not(unix))]
    pub(super) fn go_on(&self) -> Outcome<()> {
        Ok(())
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> Outcome<()> {
        let id = self.process.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        Ok(rustix::process::kill_process(id.ok_or("the other process has ended")?, signal)?)
    }

    /// Kills it (-9), and waits until it is dead.
    pub(super) async fn kill(&mut self) -> Outcome<()> {
        Ok(self.process.kill().await?)
    }

    /// Gives an order, and returns when it is done.
    pub(super) async fn order(&mut self, order: Order) -> Outcome<()> {
        self.tell(order).await?;
        match self.reply().await? {
            Reply::Ready => Ok(()),
            reply => Err(format!("the other process answered {order} with {reply:?}").into()),
        }
    }

    /// Returns how many cycles its loops did, once they have ended.
    pub(super) async fn looped(&mut self) -> Outcome<u64> {
        match self.reply().await? {
            Reply::Looped(cycles) => Ok(cycles),
            reply => Err(format!("the other process did not run its loops: {reply:?}").into()),
        }
    }

    /// Orders it to hold many locks, and returns how long that took, and by how much it has grown.
    pub(super) async fn hold_many(
        &mut self,
        locks: usize,
        ttl: Duration,
    ) -> Outcome<(Duration, Option<u64>)> {
        self.tell(Order::HoldMany { locks, ttl }).await?;
        match self.reply().await? {
            Reply::Holding { took, grown } => Ok((took, grown)),
            reply => Err(format!("the other process does not hold the locks: {reply:?}").into()),
        }
    }

    /// Lets it do nothing but hold them, and returns what that cost.
    pub(super) async fn watch(&mut self, length: Duration) -> Outcome<Idle> {
        self.tell(Order::Watch(length)).await?;
        match self.reply().await? {
            Reply::Watched(idle) => Ok(idle),
            reply => Err(format!("the other process did not hold its locks: {reply:?}").into()),
        }
    }

    /// Lets its tasks wait, and returns by how much it has grown.
    pub(super) async fn queue(&mut self, names: usize, tasks: usize) -> Outcome<Option<u64>> {
        self.tell(Order::Queue { names, tasks }).await?;
        match self.reply().await? {
            Reply::Queued(grown) => Ok(grown),
            reply => Err(format!("the tasks of the other process do not wait: {reply:?}").into()),
        }
    }

    /// Lets it hand locks to these tasks, and returns how long each hand-over took, in nanoseconds.
    pub(super) async fn hand_on(&mut self, length: Duration) -> Outcome<Vec<u64>> {
        self.tell(Order::HandOn(length)).await?;
        match self.reply().await? {
            Reply::HandedOn(latencies) => Ok(latencies),
            reply => Err(format!("the other process did not hand on its locks: {reply:?}").into()),
        }
    }

    async fn say(&mut self, text: &str) -> Outcome<()> {
        Ok(self.orders.write_all(text.as_bytes()).await?)
    }

    async fn reply(&mut self) -> Outcome<Reply> {
        self.replies.next_line().await?.ok_or("the other process has ended")?.parse()
    }
}

/// Starts a process that kills the one with this id when this program has ended, however it has: a process that is
/// stopped does not see that its input has ended.
fn watch(id: u32) -> Outcome<Child> {
    let mut watch = Command::new("/bin/sh");
    watch.args(["-c", "read -r nothing; kill -s KILL \"$1\"", "watch", &id.to_string()]);
    Ok(watch.stdin(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()?)
}
