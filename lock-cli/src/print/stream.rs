//! One output, the texts that wait to be written to it, and the thread that writes them.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::os::{self, Descriptor};

/// The number of texts that may wait. While so many wait, new ones are lost.
const MOST: usize = 1000;

/// An output. Its thread ends with the last handle.
pub(super) struct Stream {
    texts: mpsc::Sender<Text>,
    /// The number of texts that are not written yet.
    waiting: Arc<AtomicUsize>,
    write: WriteText,
}

type WriteText = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

struct Text {
    text: String,
    /// Called with the outcome. Dropped without a call if the text is lost.
    written: Box<dyn FnOnce(io::Result<()>) + Send>,
}

impl Stream {
    /// Starts the thread, which writes by `write`.
    pub(super) fn start(write: impl Fn(&str) -> io::Result<()> + Send + Sync + 'static) -> Stream {
        let (sender, texts) = mpsc::channel();
        let stream = Stream { texts: sender, waiting: Arc::default(), write: Arc::new(write) };
        let (waiting, write) = (stream.waiting.clone(), stream.write.clone());
        // If the system allows no thread, `send` writes.
        let _: io::Result<thread::JoinHandle<()>> =
            thread::Builder::new().name("output".to_owned()).spawn(move || {
                os::write_instead_of_stopping();
                write_all(&texts, &waiting, &*write);
            });
        stream
    }

    /// Adds a text, unless too many wait. Never waits.
    pub(super) fn add(&self, text: String, written: impl FnOnce(io::Result<()>) + Send + 'static) {
        if self.waiting.load(Ordering::Relaxed) < MOST {
            self.send(Text { text, written: Box::new(written) });
        }
    }

    /// Calls `then` when everything that was added before is written.
    pub(super) fn when_written(&self, then: impl FnOnce() + Send + 'static) {
        self.send(Text { text: String::new(), written: Box::new(|_| then()) });
    }

    /// Returns whether no text waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    fn send(&self, text: Text) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(mpsc::SendError(text)) = self.texts.send(text) {
            text.write(&self.waiting, &*self.write);
        }
    }
}

fn write_all(texts: &mpsc::Receiver<Text>, waiting: &AtomicUsize, write: &dyn Fn(&str) -> io::Result<()>) {
    for text in texts {
        text.write(waiting, write);
    }
}

impl Text {
    fn write(self, waiting: &AtomicUsize, write: &dyn Fn(&str) -> io::Result<()>) {
        let outcome = if self.text.is_empty() { Ok(()) } else { write(&self.text) };
        waiting.fetch_sub(1, Ordering::Relaxed);
        (self.written)(outcome);
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

/// Writes a text, if possible by one call, so that the lines of several processes don't mix. Another process may have
/// made the output one that refuses what it has no room for (`O_NONBLOCK`): then this waits for room.
pub(super) fn write(mut output: impl Write + Descriptor, text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match with_room(&mut output, |output| output.write(rest))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    with_room(&mut output, Write::flush)
}

fn with_room<O: Write + Descriptor, T>(
    output: &mut O,
    mut write: impl FnMut(&mut O) -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match write(output) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => os::wait_for_room(&*output),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
