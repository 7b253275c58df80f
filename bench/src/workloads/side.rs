//! The other process of a hand-over: does what it is told on its standard input, and says when it did it.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout};

use crate::Outcome;
use crate::clock::shared_now;
use crate::subjects::{Kind, Side};

/// What it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Acquire,
    Release,
    /// Acquire, hold, release, and again, for so long.
    Contend(Duration),
}

/// What it says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Ready,
    /// It had the lock at this moment.
    Granted(Duration),
    /// It began to release the lock at this moment.
    Released(Duration),
    /// So long each acquisition waited, in nanoseconds.
    Waited(Vec<u64>),
    Failed(String),
}

/// Reads whom to be, on which name of which server, a line each; then obeys until its input ends.
pub(crate) async fn run() -> Outcome<()> {
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let mut line =
        async || orders.next_line().await?.ok_or_else(|| std::io::Error::other("told nothing more"));
    let (kind, name, url) = (line().await?.parse::<Kind>()?, line().await?, line().await?);
    let subject = kind.connect(&url).await?;
    let mut side = subject.side(&name).await?;
    let mut replies = tokio::io::stdout();
    say(&mut replies, &Reply::Ready).await?;
    while let Some(order) = orders.next_line().await? {
        let reply = match obey(side.as_mut(), order.parse()?).await {
            Ok(reply) => reply,
            Err(error) => Reply::Failed(error.to_string()),
        };
        say(&mut replies, &reply).await?;
    }
    side.release().await
}

async fn obey(side: &mut dyn Side, order: Order) -> Outcome<Reply> {
    match order {
        Order::Acquire => {
            side.acquire().await?;
            Ok(Reply::Granted(shared_now()))
        }
        Order::Release => {
            let began = shared_now();
            side.release().await?;
            Ok(Reply::Released(began))
        }
        Order::Contend(length) => contend(side, length).await.map(Reply::Waited),
    }
}

/// How long one of many holds the lock, and how long it leaves it to the others.
const MOMENT: Duration = Duration::from_millis(1);

async fn contend(side: &mut dyn Side, length: Duration) -> Outcome<Vec<u64>> {
    let (began, mut waits) = (Instant::now(), Vec::new());
    while began.elapsed() < length {
        let asked = Instant::now();
        side.acquire().await?;
        waits.push(u64::try_from(asked.elapsed().as_nanos())?);
        tokio::time::sleep(MOMENT).await;
        side.release().await?;
        tokio::time::sleep(MOMENT).await;
    }
    Ok(waits)
}

async fn say(replies: &mut Stdout, reply: &Reply) -> Outcome<()> {
    replies.write_all(format!("{reply}\n").as_bytes()).await?;
    Ok(replies.flush().await?)
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Acquire => f.write_str("acquire"),
            Order::Release => f.write_str("release"),
            Order::Contend(length) => write!(f, "contend {}", length.as_nanos()),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        let wrong = || format!("no order: {text:?}");
        match text.split_once(' ') {
            None if text == "acquire" => Ok(Order::Acquire),
            None if text == "release" => Ok(Order::Release),
            Some(("contend", length)) => {
                length.parse().map(|n| Order::Contend(Duration::from_nanos(n))).map_err(|_| wrong())
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ready => f.write_str("ready"),
            Reply::Granted(at) => write!(f, "granted {}", at.as_nanos()),
            Reply::Released(at) => write!(f, "released {}", at.as_nanos()),
            Reply::Waited(waits) => {
                f.write_str("waited")?;
                waits.iter().try_for_each(|wait| write!(f, " {wait}"))
            }
            Reply::Failed(why) => write!(f, "failed {}", why.replace('\n', " ")),
        }
    }
}

impl FromStr for Reply {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Outcome<Reply> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let at = || Ok::<_, Self::Err>(Duration::from_nanos(rest.parse()?));
        match word {
            "ready" => Ok(Reply::Ready),
            "granted" => Ok(Reply::Granted(at()?)),
            "released" => Ok(Reply::Released(at()?)),
            "waited" => Ok(Reply::Waited(rest.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)),
            "failed" => Ok(Reply::Failed(rest.to_owned())),
            _ => Err(format!("no reply: {text:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for reply in [
            Reply::Ready,
            Reply::Granted(Duration::from_nanos(5)),
            Reply::Waited(vec![3, 40]),
            Reply::Waited(vec![]),
            Reply::Failed("a b".into()),
        ] {
            assert_eq!(reply.to_string().parse::<Reply>().unwrap(), reply);
        }
        for bad in ["", "granted", "granted x", "acquire"] {
            assert!(bad.parse::<Reply>().is_err(), "{bad:?}");
        }
    }
}
