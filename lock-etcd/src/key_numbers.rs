//! Key numbers: small numbers that tell the keys of one client in one queue apart. They are given to claims, and used
//! again.
//!
//! A new key for each acquisition would stay in etcd's history until the next compaction, and slow the name down. So
//! the first claim of a client on a name has number 0, always the same key. A number is not used again if an attempt of
//! unknown outcome may still write its key.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Name;

/// The numbers of one client that are in use.
#[derive(Debug, Default)]
pub(crate) struct KeyNumbers(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    names: HashMap<Name, Numbers>,
    /// No number below this one is given any more.
    floor: u32,
    /// The lowest number that was never given, on any name.
    unused: u32,
}

/// The numbers of one name. Taking one costs the same however many are taken: a client may have a waiter for each
/// request that it serves.
#[derive(Debug, Default)]
struct Numbers {
    taken: usize,
    /// Numbers that were given before, and are free again.
    free: BTreeSet<u32>,
    /// The lowest number of this name that was never given.
    next: u32,
}

/// A claim's number. It is given back when dropped.
#[derive(Debug)]
pub(crate) struct KeyNumber {
    pub(crate) number: u32,
    name: Name,
    numbers: Arc<KeyNumbers>,
}

impl KeyNumbers {
    /// Takes the lowest number that no other claim on this name has.
    pub(crate) fn take(self: &Arc<Self>, name: &Name) -> KeyNumber {
        let mut used = self.used();
        let Used { names, floor, unused } = &mut *used;
        let numbers = names.entry(name.clone()).or_default();
        let number = numbers.take(*floor);
        *unused = (*unused).max(number.saturating_add(1));
        KeyNumber { number, name: name.clone(), numbers: self.clone() }
    }

    /// Retires all numbers that were given so far: none of them is given again. This costs a few new keys, but nothing
    /// has to be remembered for each name.
    pub(crate) fn retire(&self) {
        let mut used = self.used();
        used.floor = used.unused;
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Numbers {
    /// Takes the lowest free number that is not below `floor`.
    fn take(&mut self, floor: u32) -> u32 {
        self.taken += 1;
        self.next = self.next.max(floor);
        loop {
            match self.free.pop_first() {
                Some(retired) if retired < floor => {}
                Some(number) => return number,
                None => break,
            }
        }
        let number = self.next;
        self.next = number.saturating_add(1);
        number
    }
}

impl Drop for KeyNumber {
    fn drop(&mut self) {
        let mut used = self.numbers.used();
        if let Some(numbers) = used.names.get_mut(&self.name) {
            numbers.taken -= 1;
            numbers.free.insert(self.number);
            if numbers.taken == 0 {
                used.names.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_unretired_free_number_is_given() {
        let numbers = Arc::new(KeyNumbers::default());
        let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let first = numbers.take(&a);
        let (second, other) = (numbers.take(&a), numbers.take(&b));
        assert_eq!((first.number, second.number, other.number), (0, 1, 0));
        drop(first);
        assert_eq!(numbers.take(&a).number, 0);
        numbers.retire();
        let later = numbers.take(&a);
        assert_eq!(later.number, 2, "0 and 1 may still be written to");
        drop(second);
        assert_eq!(numbers.take(&a).number, 3, "2 is taken, and 1 is free but retired");
        drop(later);
        assert_eq!(numbers.take(&a).number, 2);
        drop(other);
        assert_eq!(numbers.take(&b).number, 2);
        assert!(numbers.used().names.is_empty(), "names that are not in use are forgotten");
    }
}
