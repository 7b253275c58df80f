//! Starts and controls another process of a workload.

use std::process::Stdio;
use std::time::Duration;

use lock_core::toolkit::Location;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::Outcome;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;
use crate::workloads::messages::{Order, Reply, Turns};

/// Another process of a subject. It ends when this is dropped.
pub(super) struct OtherProcess {
    orders: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    /// Kills a driver when this program has ended. It goes before the process: it must not kill another one that has got
    /// its id.
    driver: Option<Child>,
    process: Child,
}

impl OtherProcess {
    /// Starts a process of this program, or the driver of a lock that is not in Rust.
    pub(super) async fn start(kind: Kind, url: &str, name: &str) -> Outcome<OtherProcess> {
        if let Kind::Peer(peer @ Peer { program: Some(_), .. }) = kind {
            return OtherProcess::driver(peer, url, &[name.to_owned()]).await;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("side");
        let mut other =
            OtherProcess::begin(command, &format!("{}\n{name}\n{url}\n", kind.as_str()), |_| Ok(None))
                .await?;
        other.ready().await?;
        Ok(other)
    }

    /// Starts the driver of another library's lock, with these names.
    pub(super) async fn driver(peer: Peer, url: &str, names: &[String]) -> Outcome<OtherProcess> {
        let program = peer.program.ok_or_else(|| format!("{} has no driver", peer.name))?;
        // The parameters of the URL are for our backend.
        let (names, location) = (names.join(" "), Location::parse(url)?);
        let head = format!("{}\n{names}\n{}\n", peer.name, location.base());
        let watch = |process: &Child| process.id().map(watch).transpose();
        let mut driver = OtherProcess::begin(program.command()?, &head, watch).await?;
        driver.ready().await?;
        Ok(driver)
    }

    /// Starts a process, and tells it these lines.
    async fn begin(
        mut command: Command,
        head: &str,
        watch: impl FnOnce(&Child) -> Outcome<Option<Child>>,
    ) -> Outcome<OtherProcess> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let (Some(mut orders), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the other process has no pipes".into());
        };
        // Not in its arguments: other users can see those, and the URL may hold a password.
        orders.write_all(head.as_bytes()).await?;
        let driver = watch(&process)?;
        Ok(OtherProcess { orders, replies: BufReader::new(replies).lines(), driver, process })
    }

    pub(super) async fn tell(&mut self, order: Order) -> Outcome<()> {
        let mut line = match self.driver {
            Some(_) => order.for_driver()?,
            None => serde_json::to_string(&order)?,
        };
        line.push('\n');
        Ok(self.orders.write_all(line.as_bytes()).await?)
    }

    pub(super) async fn reply(&mut self) -> Outcome<Reply> {
        let line = self.replies.next_line().await?.ok_or("the other process has ended")?;
        match self.driver {
            Some(_) => Reply::of_driver(&line),
            None => Ok(serde_json::from_str(&line)?),
        }
    }

    pub(super) async fn ready(&mut self) -> Outcome<()> {
        match self.reply().await? {
            Reply::Ready => Ok(()),
            reply => Err(unexpected(&reply)),
        }
    }

    pub(super) async fn granted(&mut self) -> Outcome<Duration> {
        match self.reply().await? {
            Reply::Granted(at) => Ok(at),
            reply => Err(unexpected(&reply)),
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
                reply => return Err(unexpected(&reply)),
            }
        }
    }

    /// Returns the turns of each of its contenders, once they have competed.
    pub(super) async fn competed(&mut self) -> Outcome<Vec<Turns>> {
        match self.reply().await? {
            Reply::Competed(contenders) => Ok(contenders),
            reply => Err(unexpected(&reply)),
        }
    }

    /// Stops a driver where it stands: a virtual machine goes on to compile and to collect garbage after its turn, and other
    /// subjects would be measured beside that.
    pub(super) fn stop(&self) -> Outcome<()> {
        self.signal(rustix::process::Signal::STOP)
    }

    /// Lets a driver go on after a stop.
    pub(super) fn go_on(&self) -> Outcome<()> {
        self.signal(rustix::process::Signal::CONT)
    }

    fn signal(&self, signal: rustix::process::Signal) -> Outcome<()> {
        if self.driver.is_none() {
            return Ok(());
        }
        let id = self.process.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        Ok(rustix::process::kill_process(id.ok_or("the driver has ended")?, signal)?)
    }

    /// Kills it (-9), and waits until it is dead.
    pub(super) async fn kill(&mut self) -> Outcome<()> {
        Ok(self.process.kill().await?)
    }
}

pub(super) fn unexpected(reply: &Reply) -> Box<dyn std::error::Error + Send + Sync> {
    match reply {
        Reply::Failed(why) => format!("the other process has failed: {why}").into(),
        reply => format!("the other process has answered {reply:?}").into(),
    }
}

/// Starts a process that kills the one with this id when this program has ended, however it has: a process that is
/// stopped does not see that its input has ended.
fn watch(id: u32) -> Outcome<Child> {
    let mut watch = Command::new("/bin/sh");
    watch.args(["-c", "read -r nothing; kill -s KILL \"$1\"", "watch", &id.to_string()]);
    Ok(watch.stdin(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()?)
}
