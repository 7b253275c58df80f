//! Wake-ups inside this process: a release by one of its clients wakes the waiters of all its clients that use the same
//! file.
//!
//! SQLite notifies no client of a change, so a waiter finds releases of other processes by looking. About the waiters
//! of other processes, it is only known whether any of them waits for any lock in the file.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use lock_core::Name;
use lock_core::toolkit::{Hub, PerProcess, Prefix, Subscription};

use super::beside;
use crate::table::Listener;

type FileAndPrefix = (PathBuf, String);

static SHARED: PerProcess<Mutex<HashMap<FileAndPrefix, Weak<Wakes>>>> = PerProcess::new();

/// The claims in this process that listen, for one file and prefix.
#[derive(Debug)]
pub(crate) struct Wakes {
    of: FileAndPrefix,
    hub: Hub,
    /// The file of marks. If it could not be opened, nothing is known of other processes.
    marks: io::Result<Marks>,
}

impl Wakes {
    pub(crate) fn of(file: &Path, prefix: &Prefix) -> Arc<Wakes> {
        let of = (file.to_owned(), format!("{prefix:?}"));
        let mut shared = SHARED.get().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wakes) = shared.get(&of).and_then(Weak::upgrade) {
            return wakes;
        }
        let wakes = Arc::new(Wakes { of: of.clone(), hub: Hub::default(), marks: Marks::beside(file) });
        shared.insert(of, Arc::downgrade(&wakes));
        wakes
    }

    pub(crate) fn listen(self: &Arc<Self>, name: &Name) -> Waiter {
        if let Ok(marks) = &self.marks {
            marks.add_listener();
        }
        Waiter { listening: self.hub.listen(name), wakes: self.clone() }
    }

    pub(crate) fn wake(&self, name: &str) {
        self.hub.wake(name);
    }

    /// Returns whether another claim waits for `name`. `None` if some claim waits but it is not known for
    /// which lock, or if nothing is known of other processes.
    pub(crate) fn others(&self, name: &str) -> Option<bool> {
        match self.hub.has(name) {
            true => Some(true),
            false => self.marks.as_ref().ok()?.is_empty().then_some(false),
        }
    }

    /// Returns why nothing is known of other processes.
    pub(crate) fn obstacle(&self) -> Option<&io::Error> {
        self.marks.as_ref().err()
    }
}

/// A claim's subscription to wake-ups. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    listening: Subscription,
    wakes: Arc<Wakes>,
}

#[async_trait]
impl Listener for Waiter {
    async fn woken(&self) {
        self.listening.woken().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Ok(marks) = &self.wakes.marks {
            marks.remove_listener();
        }
    }
}

/// A file beside the database. Every process that waits holds a shared lock of the operating system on it, which ends
/// with the process in any case. If the answer is wrong, a process hands a lock over to itself too often, or pauses
/// without need.
#[derive(Debug)]
struct Marks {
    mark: Mutex<Mark>,
    /// The file, opened once more, because a lock of the operating system belongs to the opened descriptor.
    probe: File,
}

#[derive(Debug)]
struct Mark {
    file: File,
    listeners: usize,
}

impl Marks {
    fn beside(database: &Path) -> io::Result<Marks> {
        let path = beside::path(database, "", "-waiters");
        let mark = Mark { file: beside::open(&path)?, listeners: 0 };
        Ok(Marks { mark: Mutex::new(mark), probe: beside::open(&path)? })
    }

    fn add_listener(&self) {
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        mark.listeners += 1;
        // Only a check whether there are marks can be in the way, for a microsecond.
        for _ in 0..TRIES {
            if mark.file.try_lock_shared().is_ok() {
                break;
            }
            std::thread::yield_now();
        }
    }

    fn remove_listener(&self) {
        let mut mark = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        mark.listeners -= 1;
        if mark.listeners == 0 {
            mark.file.unlock().ok();
        }
    }

    fn is_empty(&self) -> bool {
        let empty = self.probe.try_lock().is_ok();
        if empty {
            self.probe.unlock().ok();
        }
        empty
    }
}

const TRIES: u32 = 100;

impl Drop for Wakes {
    fn drop(&mut self) {
        let mut shared = SHARED.get().lock().unwrap_or_else(PoisonError::into_inner);
        // Another `Wakes` for the same file may be there already.
        if shared.get(&self.of).is_some_and(|wakes| wakes.strong_count() == 0) {
            shared.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_prefix_share_one_hub_until_unused() {
        let (file, other) = (Path::new("/a/locks.db"), Path::new("/b/locks.db"));
        let prefix = |text: &str| Prefix::new(text).unwrap();
        let first = Wakes::of(file, &prefix("p"));
        assert!(Arc::ptr_eq(&first, &Wakes::of(file, &prefix("p"))));
        assert!(!Arc::ptr_eq(&first, &Wakes::of(file, &prefix("q"))));
        assert!(!Arc::ptr_eq(&first, &Wakes::of(other, &prefix("p"))));
        let of = first.of.clone();
        drop(first);
        assert!(!SHARED.get().lock().unwrap().contains_key(&of));
    }
}
