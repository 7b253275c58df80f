//! Which keys of a queue are whose: small numbers, given to the claims of one client, and given again.
//!
//! A new key for each acquisition would stay in etcd's history until the next compaction and slow its name down. So the
//! first claim of a client on a name has slot 0, always the same key. A slot in which an attempt of unknown outcome may
//! still arrive is not given again.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Name;

/// The slots of one client that are in use.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    names: HashMap<Name, BTreeSet<u32>>,
    /// No slot below is given any more.
    floor: u32,
    /// The first that was never given.
    unused: u32,
}

/// A claim's slot; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    name: Name,
    slots: Arc<Slots>,
}

impl Slots {
    /// The lowest that no other claim on this name has.
    pub(crate) fn take(self: &Arc<Self>, name: &Name) -> Slot {
        let mut used = self.used();
        let Used { names, floor, unused } = &mut *used;
        let taken = names.entry(name.clone()).or_default();
        let number = (*floor..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX);
        taken.insert(number);
        *unused = (*unused).max(number.saturating_add(1));
        Slot { number, name: name.clone(), slots: self.clone() }
    }

    /// Gives none of the slots again that were given so far. A few keys become new ones; nothing is remembered by name.
    pub(crate) fn retire(&self) {
        let mut used = self.used();
        used.floor = used.unused;
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut used = self.slots.used();
        if let Some(taken) = used.names.get_mut(&self.name) {
            taken.remove(&self.number);
            if taken.is_empty() {
                used.names.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_given_until_it_is_retired() {
        let slots = Arc::new(Slots::default());
        let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let first = slots.take(&a);
        let (second, other) = (slots.take(&a), slots.take(&b));
        assert_eq!((first.number, second.number, other.number), (0, 1, 0));
        drop(first);
        assert_eq!(slots.take(&a).number, 0);
        slots.retire();
        let later = slots.take(&a);
        assert_eq!(later.number, 2, "0 and 1 may yet be written to");
        drop((second, later, other));
        assert_eq!(slots.take(&b).number, 2);
        assert!(slots.used().names.is_empty(), "nothing is kept of names that nobody uses");
    }
}
