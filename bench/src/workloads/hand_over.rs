//! `hand-over`: this process and another hold one name in turn. Measured from before the release in the one to the
//! grant in the other, who has been waiting for it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;

use crate::Outcome;
use crate::clock::shared_now;
use crate::rounds::Lane;
use crate::subjects::{Kind, Side, Subject};
use crate::tally::Slice;
use crate::workloads::side::{Order, Reply};

/// How long who waits is left to settle down to it: several round trips on any machine.
const SETTLE: Duration = Duration::from_millis(3);

/// Two processes of one subject.
pub(crate) struct HandOver {
    /// Lent to a task while it waits.
    here: Option<Box<dyn Side>>,
    there: Other,
}

impl HandOver {
    pub(crate) async fn new(kind: Kind, subject: &dyn Subject, url: &str, name: &str) -> Outcome<HandOver> {
        let here = subject.side(name).await?;
        // After the floor has recorded its name: it wants the server for itself.
        let there = Other::start(kind, url, name).await?;
        Ok(HandOver { here: Some(here), there })
    }

    /// From here to there and back.
    async fn round_trip(&mut self) -> Outcome<[Duration; 2]> {
        self.there.tell(Order::Acquire).await?;
        tokio::time::sleep(SETTLE).await;
        let released = shared_now();
        self.here()?.release().await?;
        let granted = self.there.granted().await?;
        let over = granted.saturating_sub(released);

        let mut here = self.here.take().ok_or(NOT_HERE)?;
        let waits = tokio::spawn(async move {
            let outcome = here.acquire().await;
            (here, outcome.map(|()| shared_now()))
        });
        tokio::time::sleep(SETTLE).await;
        let released = self.there.release().await;
        let (here, granted) = waits.await?;
        self.here = Some(here);
        Ok([over, granted?.saturating_sub(released?)])
    }

    fn here(&mut self) -> Outcome<&mut Box<dyn Side>> {
        self.here.as_mut().ok_or_else(|| NOT_HERE.into())
    }
}

const NOT_HERE: &str = "this side was lost with the task that waited for it";

#[async_trait]
impl Lane for HandOver {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let end = Instant::now() + length;
        let mut slice = Slice::default();
        self.here()?.acquire().await?;
        while Instant::now() < end {
            match self.round_trip().await {
                Ok(latencies) => latencies.into_iter().for_each(|latency| slice.record(latency)),
                Err(error) => {
                    // Who holds what is not known now: the slice is over, and both begin anew.
                    slice.errors.push(error.to_string());
                    self.there.release().await?;
                    break;
                }
            }
        }
        self.here()?.release().await?;
        let took: u64 = slice.latencies.iter().sum();
        slice.rate = slice.latencies.len() as f64 / Duration::from_nanos(took.max(1)).as_secs_f64();
        Ok(slice)
    }
}

/// The other process.
struct Other {
    orders: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    /// Ended with us.
    _process: Child,
}

impl Other {
    async fn start(kind: Kind, url: &str, name: &str) -> Outcome<Other> {
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

    async fn tell(&mut self, order: Order) -> Outcome<()> {
        self.say(&format!("{order}\n")).await
    }

    async fn granted(&mut self) -> Outcome<Duration> {
        match self.reply().await? {
            Reply::Granted(at) => Ok(at),
            reply => Err(format!("the other process was to be granted the lock, and said {reply:?}").into()),
        }
    }

    /// When it began to release.
    async fn release(&mut self) -> Outcome<Duration> {
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

    async fn say(&mut self, text: &str) -> Outcome<()> {
        Ok(self.orders.write_all(text.as_bytes()).await?)
    }

    async fn reply(&mut self) -> Outcome<Reply> {
        self.replies.next_line().await?.ok_or("the other process has ended")?.parse()
    }
}
