//! The end of this program's stdin, by which the program that has started it says that it needs the lock no more.

use std::io::{self, ErrorKind, Read};
use std::thread;

use tokio::sync::watch;

use crate::exit::About;
use crate::os;

/// Reads stdin to its end, in a thread.
#[derive(Debug)]
pub(crate) struct Input(watch::Receiver<bool>);

impl Input {
    /// Starts to read. What is read is thrown away. If stdin is at its end already, that is known at once.
    pub(crate) fn watch() -> io::Result<Input> {
        // A job in the background of a shell can't read the terminal, and is ended by a signal. If this fails, such a
        // job is stopped.
        let _: io::Result<()> = os::fail_instead_of_stopping();
        let (closed, receiver) = watch::channel(os::stdin_is_ready() && matches!(read(), Ok(0)));
        let read = move || {
            if read_to_end().is_ok() {
                closed.send_replace(true);
            }
        };
        thread::Builder::new().spawn(read).about("a thread that reads stdin")?;
        Ok(Input(receiver))
    }

    /// Waits until stdin is at its end. Never resolves if stdin can't be read. Cancel safe.
    pub(crate) async fn closed(&mut self) {
        if self.0.wait_for(|closed| *closed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn read_to_end() -> io::Result<()> {
    loop {
        match read() {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn read() -> io::Result<usize> {
    io::stdin().read(&mut [0; 4096])
}
