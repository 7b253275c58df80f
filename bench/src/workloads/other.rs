//! Another process, from the outside.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

use crate::Outcome;
use crate::subjects::Kind;
use crate::workloads::orders::{Order, Reply};

/// Another process of a subject. Ended with us.
pub(super) struct Other {
    orders: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl Other {
    pub(super) async fn start(kind: Kind, url: &str, name: &str) -> Outcome<Other> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("hand-over-side")
            // As many as we have.
            .args(["--threads", &Handle::current().metrics().num_workers().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(orders), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the other process has no pipes".into());
        };
        let replies = BufReader::new(replies).lines();
        let mut other = Other { orders, replies, _process: process };
        // Not in its arguments: they are for everybody to see, and the URL may hold a password.
        other.say(&format!("{}\n{name}\n{url}\n", kind.as_str())).await?;
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
            reply => Err(format!("the other process was to be granted the lock, and said {reply:?}").into()),
        }
    }

    /// When it began to release.
    pub(super) async fn release(&mut self) -> Outcome<Duration> {
        self.tell(Order::Release).await?;
        loop {
            match self.reply().await? {
                Reply::Released(at) => return Ok(at),
                // The answer to what had failed on our side.
                Reply::Granted(_) => {}
                reply => {
                    return Err(
                        format!("the other process was to release the lock, and said {reply:?}").into()
                    );
                }
            }
        }
    }

    /// How long each acquisition waited, in nanoseconds; once it has contended.
    pub(super) async fn waited(&mut self) -> Outcome<Vec<u64>> {
        match self.reply().await? {
            Reply::Waited(waits) => Ok(waits),
            reply => Err(format!("the other process was to contend for the lock, and said {reply:?}").into()),
        }
    }

    /// Tells what it answers when it is done.
    pub(super) async fn order(&mut self, order: Order) -> Outcome<()> {
        self.tell(order).await?;
        match self.reply().await? {
            Reply::Ready => Ok(()),
            reply => Err(format!("the other process was told to {order}, and said {reply:?}").into()),
        }
    }

    /// How many cycles its loops did, once they have.
    pub(super) async fn looped(&mut self) -> Outcome<u64> {
        match self.reply().await? {
            Reply::Looped(cycles) => Ok(cycles),
            reply => Err(format!("the other process was to run its loops, and said {reply:?}").into()),
        }
    }

    async fn say(&mut self, text: &str) -> Outcome<()> {
        Ok(self.orders.write_all(text.as_bytes()).await?)
    }

    async fn reply(&mut self) -> Outcome<Reply> {
        self.replies.next_line().await?.ok_or("the other process has ended")?.parse()
    }
}
