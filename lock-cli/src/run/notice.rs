//! What a person at a terminal sees while the lock is waited for.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use onelock::{Clock, Guard, Lock};

/// Nobody reads a line that is gone again sooner.
const FIRST: Duration = Duration::from_millis(300);
const EACH: Duration = Duration::from_secs(1);

/// What `acquire` answers. While it doesn't, a terminal shows who holds the lock, since when, and until when.
pub(super) async fn while_waiting(
    acquire: impl Future<Output = onelock::Result<Guard>>,
    lock: &Lock,
    clock: &Clock,
) -> onelock::Result<Guard> {
    if !io::stderr().is_terminal() {
        return acquire.await;
    }
    tokio::select! {
        biased;
        outcome = acquire => {
            wipe();
            outcome
        }
        never = show(lock, clock) => never,
    }
}

async fn show<T>(lock: &Lock, clock: &Clock) -> T {
    clock.sleep(FIRST).await;
    loop {
        let what = match lock.inspect().await.map(|inspection| inspection.holder) {
            Ok(Some(holder)) => holder.to_string(),
            Ok(None) => "free a moment ago".to_owned(),
            Err(error) => error.message().to_owned(),
        };
        line(&format!("lock: waiting for {:?}: {what}", lock.name().as_str()));
        clock.sleep(EACH).await;
    }
}

/// In the place of the line before. One that is longer than the terminal is wide would leave its beginnings behind.
fn line(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(width()).collect();
    print(&format!("\r{text}\x1b[K"));
}

fn wipe() {
    print("\r\x1b[K");
}

fn print(text: &str) {
    let mut stderr = io::stderr().lock();
    // A terminal that went away shows nothing.
    let _: io::Result<()> = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// How many characters fit into a line.
fn width() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr()) {
        return match size.ws_col {
            0 => 79,
            columns => usize::from(columns) - 1,
        };
    }
    79
}
