//! The arguments by which a call asks for a lock: on which server, for how long, and how long it waits.

use std::time::Duration;

use onelock::{Client, LockBuilder, Name, parse_duration};

use super::Server;

/// The common arguments of `run`, `hold` and `acquire`.
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    pub(crate) server: Server,

    /// How long the lock stays held if this program dies without releasing it; it is renewed every third of that time;
    /// 30s by default
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,

    /// How long to wait for the server and the lock; by default there is no limit for the lock, and no wait for the
    /// server
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Give up at once if another client holds the lock
    #[arg(long)]
    no_wait: bool,

    /// The exit status if another client held the lock
    #[arg(short = 'E', long, value_name = "N", default_value_t = 75)]
    pub(crate) conflict_exit_code: u8,
}

impl Ask {
    pub(crate) fn waiting(&self) -> Waiting {
        match (self.wait, self.no_wait) {
            (Some(wait), _) => Waiting::AtMost(wait),
            (None, true) => Waiting::No,
            (None, false) => Waiting::ForEver,
        }
    }

    /// Starts to build the lock. `wait` is what is left of the wait.
    pub(crate) fn lock(&self, client: &Client, name: &Name, wait: Option<Duration>) -> LockBuilder {
        let mut lock = client.lock(name.as_str());
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(wait) = wait {
            lock = lock.wait(wait);
        }
        lock
    }
}

/// The length of a call's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Without limit for the lock.
    ForEver,
    /// For at most this time, for the server and the lock together.
    AtMost(Duration),
    /// Not at all.
    No,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Args, Verb};
    use super::*;

    #[test]
    fn a_call_says_how_long_it_waits() {
        let waiting = |flags: &[&str]| {
            let call = ["lock", "run", "--name", "n"].iter().chain(flags).chain(&["--", "true"]);
            let Verb::Run(run) = Args::try_parse_from(call)?.verb else { panic!("it runs") };
            Ok::<_, clap::Error>(run.ask.waiting())
        };
        assert_eq!(waiting(&[]).unwrap(), Waiting::ForEver);
        assert_eq!(waiting(&["--no-wait"]).unwrap(), Waiting::No);
        assert_eq!(waiting(&["--wait", "1.5s"]).unwrap(), Waiting::AtMost(Duration::from_millis(1500)));
        assert!(waiting(&["--wait", "1s", "--no-wait"]).is_err());
        assert!(waiting(&["--wait", "1"]).is_err());
    }
}
