//! Wake-ups inside this process: a release by one of its clients wakes the waiters of all that use the same file.
//!
//! SQLite tells nobody of a change: what other processes release, a waiter finds by looking.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use lock_core::{Hub, Listening, Name, Prefix};

type Of = (PathBuf, String);

static SHARED: LazyLock<Mutex<HashMap<Of, Weak<Wakes>>>> = LazyLock::new(Mutex::default);

/// Who listens in this process, of one file and prefix.
#[derive(Debug)]
pub(crate) struct Wakes {
    of: Of,
    hub: Hub,
}

impl Wakes {
    pub(crate) fn of(file: &Path, prefix: &Prefix) -> Arc<Wakes> {
        let of = (file.to_owned(), format!("{prefix:?}"));
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wakes) = shared.get(&of).and_then(Weak::upgrade) {
            return wakes;
        }
        let wakes = Arc::new(Wakes { of: of.clone(), hub: Hub::default() });
        shared.insert(of, Arc::downgrade(&wakes));
        wakes
    }

    pub(crate) fn listen(&self, name: &Name) -> Listening {
        self.hub.listen(name)
    }

    pub(crate) fn wake(&self, name: &str) {
        self.hub.wake(name);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.hub.has(name)
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // A successor may stand there already.
        if shared.get(&self.of).is_some_and(|wakes| wakes.strong_count() == 0) {
            shared.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_one_file_and_prefix_share_one_and_the_last_one_takes_it_along() {
        let (file, other) = (Path::new("/a/locks.db"), Path::new("/b/locks.db"));
        let prefix = |text: &str| Prefix::new(text).unwrap();
        let first = Wakes::of(file, &prefix("p"));
        assert!(Arc::ptr_eq(&first, &Wakes::of(file, &prefix("p"))));
        assert!(!Arc::ptr_eq(&first, &Wakes::of(file, &prefix("q"))));
        assert!(!Arc::ptr_eq(&first, &Wakes::of(other, &prefix("p"))));
        let of = first.of.clone();
        drop(first);
        assert!(!SHARED.lock().unwrap().contains_key(&of));
    }
}
