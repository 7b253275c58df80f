//! The end of this program's stdin, by which the program that has started it says that it needs the lock no more.

use std::io::{self, ErrorKind, Read};
use std::thread;

use tokio::sync::watch;

use crate::os;

/// Reads stdin to its end, in a thread.
#[derive(Debug)]
pub(crate) struct Input(watch::Receiver<bool>);

impl Input {
    /// Starts to read. What is read is thrown away.
    pub(crate) fn watch() -> Input {
        let (closed, receiver) = watch::channel(false);
        thread::spawn(move || {
            // A job in the background of a shell can't read the terminal. It is ended by a signal.
            if read_to_end().is_ok() {
                closed.send_replace(true);
            }
        });
        Input(receiver)
    }

    /// Waits until stdin is at its end. Never resolves if stdin can't be read. Cancel safe.
    pub(crate) async fn closed(&mut self) {
        if self.0.wait_for(|closed| *closed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn read_to_end() -> io::Result<()> {
    os::fail_instead_of_stopping()?;
    let mut bytes = [0; 4096];
    loop {
        match io::stdin().read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
