//! The other process of a hand-over: does what it is told on its standard input, and says when it did it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout};

use crate::Outcome;
use crate::clock::shared_now;
use crate::subjects::{Kind, Side};

/// What it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Acquire,
    Release,
}

/// What it says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Ready,
    /// It had the lock at this moment.
    Granted(Duration),
    /// It began to release the lock at this moment.
    Released(Duration),
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
    }
}

async fn say(replies: &mut Stdout, reply: &Reply) -> Outcome<()> {
    replies.write_all(format!("{reply}\n").as_bytes()).await?;
    Ok(replies.flush().await?)
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Acquire => "acquire",
            Order::Release => "release",
        })
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        match text {
            "acquire" => Ok(Order::Acquire),
            "release" => Ok(Order::Release),
            _ => Err(format!("no order: {text:?}")),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ready => f.write_str("ready"),
            Reply::Granted(at) => write!(f, "granted {}", at.as_nanos()),
            Reply::Released(at) => write!(f, "released {}", at.as_nanos()),
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
        for reply in [Reply::Ready, Reply::Granted(Duration::from_nanos(5)), Reply::Failed("a b".into())] {
            assert_eq!(reply.to_string().parse::<Reply>().unwrap(), reply);
        }
        for bad in ["", "granted", "granted x", "acquire"] {
            assert!(bad.parse::<Reply>().is_err(), "{bad:?}");
        }
    }
}
