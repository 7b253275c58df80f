//! The other process of a workload: it follows the orders on its standard input, and replies when it has done each.

use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::Outcome;
use crate::clock::shared_now;
use crate::subjects::{Kind, Side, Subject};
use crate::workloads::contenders::{Turn, take_turns};
use crate::workloads::held::Holding;
use crate::workloads::messages::{Order, Reply};

/// Reads the subject, the name, and the URL of the server, a line each; then follows orders until its input ends.
pub(crate) async fn run() -> Outcome<()> {
    let (reader, lines) = unbounded_channel();
    // In a task of its own: nothing but the orders is done in this one, which is measured.
    let reading = tokio::spawn(read(BufReader::new(tokio::io::stdin()), reader));
    tokio::select! {
        biased;
        outcome = follow(lines) => outcome,
        ended = reading => ended?,
    }
}

/// An answer may take so long after the input has ended: the process that wants it may be gone.
const GRACE: Duration = Duration::from_secs(10);

/// Passes the input on, before its lines' turn, so that its end is seen while an answer takes long. Returns when this
/// process has to end, even if it waits for a lock then.
async fn read(input: impl AsyncBufRead + Unpin, lines: UnboundedSender<String>) -> Outcome<()> {
    let mut input = input.lines();
    while let Some(line) = input.next_line().await? {
        lines.send(line)?;
    }
    drop(lines);
    tokio::time::sleep(GRACE).await;
    Err("the input has ended before the last order was carried out".into())
}

async fn follow(mut lines: UnboundedReceiver<String>) -> Outcome<()> {
    let mut line = async || lines.recv().await.ok_or_else(|| std::io::Error::other("the input has ended"));
    let (kind, name, url) = (line().await?.parse::<Kind>()?, line().await?, line().await?);
    let subject = kind.connect(&url).await?;
    let side = subject.side(&name).await?;
    let mut state = ProcessState { name, url, subject, side, crowd: Vec::new(), holding: None };
    let mut replies = tokio::io::stdout();
    say(&mut replies, &Reply::Ready).await?;
    while let Some(order) = lines.recv().await {
        let reply = match state.obey(serde_json::from_str(&order)?).await {
            Ok(reply) => reply,
            Err(error) => Reply::Failed(error.to_string()),
        };
        say(&mut replies, &reply).await?;
    }
    state.side.release().await
}

struct ProcessState {
    name: String,
    url: String,
    subject: Box<dyn Subject>,
    side: Box<dyn Side>,
    crowd: Vec<Box<dyn Side>>,
    holding: Option<Holding>,
}

impl ProcessState {
    async fn obey(&mut self, order: Order) -> Outcome<Reply> {
        match order {
            Order::Acquire => {
                self.side.acquire().await?;
                Ok(Reply::Granted(shared_now()))
            }
            Order::Release => {
                let began = shared_now();
                self.side.release().await?;
                if let Some(holding) = self.holding.take() {
                    holding.release().await;
                }
                Ok(Reply::Released(began))
            }
            Order::Compete { contenders, moment, length } => {
                while self.crowd.len() < contenders {
                    self.crowd.push(self.subject.side(&self.name).await?);
                }
                let turn = Turn::Hold(moment);
                Ok(Reply::Competed(take_turns(&mut self.crowd, turn, length).await))
            }
            Order::Cycle(_) => Err("only a driver of another library's lock does this".into()),
            Order::Hold { locks, ttl } => {
                self.holding = Some(Holding::begin(&self.url, &self.name, locks, ttl).await?);
                Ok(Reply::Ready)
            }
            Order::Watch(length) => {
                let holding = self.holding.as_ref().ok_or("it holds no locks")?;
                Ok(Reply::Watched(holding.watch(length).await))
            }
        }
    }
}

async fn say(replies: &mut Stdout, reply: &Reply) -> Outcome<()> {
    replies.write_all(format!("{}\n", serde_json::to_string(reply)?).as_bytes()).await?;
    Ok(replies.flush().await?)
}
