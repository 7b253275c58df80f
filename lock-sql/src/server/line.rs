//! The order in which requests use the connections of a pool.

use std::collections::VecDeque;

/// What a statement is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To see the holder of a lock, or to take the lock.
    Acquire,
    /// To renew or release a lock. Requests for [`Purpose::Acquire`] always leave one connection for it.
    Maintain,
}

/// The requests that wait for a connection, and how many connections no request uses.
///
/// While a request waits, no connection is free for its purpose.
#[derive(Debug)]
pub(super) struct Line<R> {
    /// How many connections no request uses.
    free: usize,
    /// How many more connections may be used to acquire.
    free_to_acquire: usize,
    acquiring: VecDeque<(Ticket, R)>,
    maintaining: VecDeque<(Ticket, R)>,
    last: Ticket,
}

/// A place in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// What happens to a request that comes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<R> {
    /// It uses a connection from now on, up to [`Line::next`].
    Served(R),
    Waits(Ticket),
}

impl<R> Line<R> {
    /// Makes a line for so many connections; fewer than two are taken for two.
    pub(super) fn new(connections: usize) -> Line<R> {
        let free = connections.max(2);
        Line {
            free,
            free_to_acquire: free - 1,
            acquiring: VecDeque::new(),
            maintaining: VecDeque::new(),
            last: Ticket::default(),
        }
    }

    pub(super) fn enter(&mut self, purpose: Purpose, request: R) -> Entry<R> {
        if self.use_one(purpose) {
            return Entry::Served(request);
        }
        let ticket = Ticket(self.last.0 + 1);
        self.last = ticket;
        self.waiting(purpose).push_back((ticket, request));
        Entry::Waits(ticket)
    }

    /// Takes a request out of the line. Returns whether it still waited.
    pub(super) fn leave(&mut self, purpose: Purpose, ticket: Ticket) -> bool {
        let waiting = self.waiting(purpose);
        let place = waiting.iter().position(|(own, _)| *own == ticket);
        place.and_then(|place| waiting.remove(place)).is_some()
    }

    /// Frees the connection that a request for `done` used, and returns the request that uses it from now on. Requests
    /// for the two purposes take turns where both wait, so that neither waits for all of the other.
    pub(super) fn next(&mut self, done: Purpose) -> Option<(Purpose, R)> {
        self.free += 1;
        let other = match done {
            Purpose::Acquire => {
                self.free_to_acquire += 1;
                Purpose::Maintain
            }
            Purpose::Maintain => Purpose::Acquire,
        };
        [other, done].into_iter().find_map(|purpose| self.serve(purpose))
    }

    fn serve(&mut self, purpose: Purpose) -> Option<(Purpose, R)> {
        if self.waiting(purpose).is_empty() || !self.use_one(purpose) {
            return None;
        }
        self.waiting(purpose).pop_front().map(|(_, request)| (purpose, request))
    }

    /// Takes a connection into use, if one is free for this purpose.
    fn use_one(&mut self, purpose: Purpose) -> bool {
        let is_free = match purpose {
            Purpose::Acquire => self.free.min(self.free_to_acquire) > 0,
            Purpose::Maintain => self.free > 0,
        };
        if is_free {
            self.free -= 1;
            self.free_to_acquire -= usize::from(purpose == Purpose::Acquire);
        }
        is_free
    }

    fn waiting(&mut self, purpose: Purpose) -> &mut VecDeque<(Ticket, R)> {
        match purpose {
            Purpose::Acquire => &mut self.acquiring,
            Purpose::Maintain => &mut self.maintaining,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Purpose::{Acquire, Maintain};
    use super::*;

    /// Returns a line with three connections, all of which are in use, two of them to acquire.
    fn busy() -> Line<&'static str> {
        let mut line = Line::new(3);
        for purpose in [Acquire, Acquire, Maintain] {
            assert_eq!(line.enter(purpose, "served"), Entry::Served("served"));
        }
        line
    }

    #[test]
    fn the_last_connection_is_for_renewals() {
        let mut line = Line::new(1);
        assert_eq!(line.enter(Acquire, "a"), Entry::Served("a"));
        assert!(matches!(line.enter(Acquire, "b"), Entry::Waits(_)));
        assert_eq!(line.enter(Maintain, "renewal"), Entry::Served("renewal"));
        assert_eq!(line.next(Maintain), None, "the connection stays free");
        assert_eq!(line.enter(Maintain, "release"), Entry::Served("release"));
        assert_eq!(line.next(Acquire), Some((Acquire, "b")));
    }

    #[test]
    fn requests_of_one_purpose_are_served_in_the_order_in_which_they_came() {
        let mut line = busy();
        for request in ["1", "2", "3"] {
            assert!(matches!(line.enter(Acquire, request), Entry::Waits(_)));
        }
        let served: Vec<_> = (0..3).filter_map(|_| line.next(Acquire)).map(|(_, request)| request).collect();
        assert_eq!(served, ["1", "2", "3"]);
    }

    #[test]
    fn a_renewal_waits_for_one_attempt_at_most_and_an_attempt_for_one_renewal() {
        let mut line = busy();
        for n in ["1", "2"] {
            line.enter(Acquire, n);
            line.enter(Maintain, n);
        }
        let mut done = Acquire;
        for expected in [(Maintain, "1"), (Acquire, "1"), (Maintain, "2"), (Acquire, "2")] {
            assert_eq!(line.next(done), Some(expected));
            done = expected.0;
        }
        assert_eq!(line.next(done), None);
    }

    #[test]
    fn a_request_that_has_left_is_not_served_and_one_that_is_served_can_not_leave() {
        let mut line = busy();
        let Entry::Waits(first) = line.enter(Maintain, "1") else { panic!("a connection was free") };
        let Entry::Waits(second) = line.enter(Maintain, "2") else { panic!("a connection was free") };
        assert!(line.leave(Maintain, first) && !line.leave(Maintain, first));
        assert_eq!(line.next(Maintain), Some((Maintain, "2")));
        assert!(!line.leave(Maintain, second));
    }
}
