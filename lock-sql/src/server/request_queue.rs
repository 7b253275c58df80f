//! The order in which requests use the connections of a pool.

use std::collections::VecDeque;

/// The purpose of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To see the holder of a lock, or to take the lock.
    Acquire,
    /// To renew or release a lock. Requests for [`Purpose::Acquire`] always leave one connection for it.
    Maintain,
}

/// The wait of a statement for a row that another transaction has locked. Each connection is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// The call waits, for a second at most.
    Bounded,
    /// The server undoes it at once.
    Never,
}

/// The reason of a request: it is new, or the server undid its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    First,
    Again,
}

/// The resources of a request while it is served: a connection of this kind, for this purpose, in this turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) purpose: Purpose,
    pub(super) turn: Turn,
    pub(super) lock_wait: LockWait,
}

/// The requests that wait for a connection, and how many connections no request uses.
///
/// While a request waits for the first time, no connection is free for its purpose. Statements that wait for
/// rows leave more than half of the connections to those that wait for none, so that any number of rows that
/// others have locked delays no other request.
///
/// Where many callers want one row, it is locked without a gap, and a statement that does not wait for it is
/// undone each time. So of those that come again, one for each purpose is tried so, and the others wait for a
/// connection that waits for rows: the server's time goes to those that get an answer.
#[derive(Debug)]
pub(super) struct RequestQueue<R> {
    /// The number of connections that no request uses, on which statements wait for rows.
    free_to_wait: usize,
    /// The number of others that no request uses.
    free: usize,
    /// The number of further connections that may be used to acquire.
    free_to_acquire: usize,
    acquiring: Waiting<R>,
    maintaining: Waiting<R>,
    last: Ticket,
}

/// Callers that wait for one purpose.
#[derive(Debug)]
struct Waiting<R> {
    first: VecDeque<(Ticket, R)>,
    again: VecDeque<(Ticket, R)>,
    /// One that comes again uses a connection that waits for no row.
    again_is_tried: bool,
}

/// A position in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// The result of entering the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<R> {
    /// The caller uses a connection from now on, up to [`RequestQueue::next`].
    Served(Use, R),
    Waits(Ticket),
}

impl<R> RequestQueue<R> {
    /// Makes a queue for so many connections; fewer than two are taken for two.
    pub(super) fn new(connections: usize) -> RequestQueue<R> {
        let connections = connections.max(2);
        let free_to_wait = ((connections - 1) / 2).max(1);
        RequestQueue {
            free_to_wait,
            free: connections - free_to_wait,
            free_to_acquire: connections - 1,
            acquiring: Waiting::default(),
            maintaining: Waiting::default(),
            last: Ticket::default(),
        }
    }

    pub(super) fn enter(&mut self, purpose: Purpose, turn: Turn, request: R) -> Entry<R> {
        for lock_wait in [LockWait::Bounded, LockWait::Never] {
            let used = Use { purpose, turn, lock_wait };
            if self.take(used) {
                return Entry::Served(used, request);
            }
        }
        let ticket = Ticket(self.last.0 + 1);
        self.last = ticket;
        self.waiting(purpose).of(turn).push_back((ticket, request));
        Entry::Waits(ticket)
    }

    /// Takes a request out of the queue. Returns whether it still waited.
    pub(super) fn leave(&mut self, purpose: Purpose, turn: Turn, ticket: Ticket) -> bool {
        let waiting = self.waiting(purpose).of(turn);
        let place = waiting.iter().position(|(own, _)| *own == ticket);
        place.and_then(|place| waiting.remove(place)).is_some()
    }

    /// Frees a connection, and returns the request that uses it from now on. Requests for the two purposes
    /// take turns where both wait, so that neither waits for all of the other. Those that come again let all
    /// others pass: as a rule their rows are still locked.
    pub(super) fn next(&mut self, done: Use) -> Option<(Use, R)> {
        *self.free(done.lock_wait) += 1;
        if done.is_a_try() {
            self.waiting(done.purpose).again_is_tried = false;
        }
        let other = match done.purpose {
            Purpose::Acquire => {
                self.free_to_acquire += 1;
                Purpose::Maintain
            }
            Purpose::Maintain => Purpose::Acquire,
        };
        [Turn::First, Turn::Again].into_iter().find_map(|turn| {
            let mut serve = |purpose| self.serve(Use { purpose, turn, ..done });
            serve(other).or_else(|| serve(done.purpose))
        })
    }

    fn serve(&mut self, used: Use) -> Option<(Use, R)> {
        if self.waiting(used.purpose).of(used.turn).is_empty() || !self.take(used) {
            return None;
        }
        self.waiting(used.purpose).of(used.turn).pop_front().map(|(_, request)| (used, request))
    }

    /// Takes a connection into use, if one of this kind is free for this purpose and turn.
    fn take(&mut self, used: Use) -> bool {
        let is_to_acquire = used.purpose == Purpose::Acquire;
        let is_free = *self.free(used.lock_wait) > 0
            && !(is_to_acquire && self.free_to_acquire == 0)
            && !(used.is_a_try() && self.waiting(used.purpose).again_is_tried);
        if is_free {
            *self.free(used.lock_wait) -= 1;
            self.free_to_acquire -= usize::from(is_to_acquire);
            self.waiting(used.purpose).again_is_tried |= used.is_a_try();
        }
        is_free
    }

    fn free(&mut self, lock_wait: LockWait) -> &mut usize {
        match lock_wait {
            LockWait::Bounded => &mut self.free_to_wait,
            LockWait::Never => &mut self.free,
        }
    }

    fn waiting(&mut self, purpose: Purpose) -> &mut Waiting<R> {
        match purpose {
            Purpose::Acquire => &mut self.acquiring,
            Purpose::Maintain => &mut self.maintaining,
        }
    }
}

impl Use {
    /// Returns whether a statement that was undone is sent again without waiting for its row.
    fn is_a_try(self) -> bool {
        self.turn == Turn::Again && self.lock_wait == LockWait::Never
    }
}

impl<R> Waiting<R> {
    fn of(&mut self, turn: Turn) -> &mut VecDeque<(Ticket, R)> {
        match turn {
            Turn::First => &mut self.first,
            Turn::Again => &mut self.again,
        }
    }
}

impl<R> Default for Waiting<R> {
    fn default() -> Waiting<R> {
        Waiting { first: VecDeque::new(), again: VecDeque::new(), again_is_tried: false }
    }
}

#[cfg(test)]
mod tests {
    use super::LockWait::{Bounded, Never};
    use super::Purpose::{Acquire, Maintain};
    use super::*;

    fn use_of(purpose: Purpose, lock_wait: LockWait) -> Use {
        Use { purpose, turn: Turn::First, lock_wait }
    }

    /// Returns a queue with three connections, all of which are in use, two of them to acquire.
    fn busy() -> RequestQueue<&'static str> {
        let mut queue = RequestQueue::new(3);
        for (purpose, lock_wait) in [(Acquire, Bounded), (Acquire, Never), (Maintain, Never)] {
            let entry = queue.enter(purpose, Turn::First, "served");
            assert_eq!(entry, Entry::Served(use_of(purpose, lock_wait), "served"));
        }
        queue
    }

    fn waits<R: std::fmt::Debug>(entry: Entry<R>) -> Ticket {
        match entry {
            Entry::Waits(ticket) => ticket,
            served => panic!("a connection was free: {served:?}"),
        }
    }

    #[test]
    fn the_last_connection_is_for_renewals() {
        let mut queue = RequestQueue::new(1);
        let (acquires, renews) = (use_of(Acquire, Bounded), use_of(Maintain, Never));
        assert_eq!(queue.enter(Acquire, Turn::First, "a"), Entry::Served(acquires, "a"));
        waits(queue.enter(Acquire, Turn::First, "b"));
        assert_eq!(queue.enter(Maintain, Turn::First, "renewal"), Entry::Served(renews, "renewal"));
        assert_eq!(queue.next(renews), None, "the connection stays free");
        assert_eq!(queue.enter(Maintain, Turn::First, "release"), Entry::Served(renews, "release"));
        assert_eq!(queue.next(acquires), Some((acquires, "b")));
    }

    #[test]
    fn most_connections_never_wait_for_rows() {
        for connections in 2..=20 {
            let mut queue = RequestQueue::new(connections);
            let entries = (0..connections).map(|_| queue.enter(Maintain, Turn::First, ()));
            let waiting =
                entries.filter(|entry| *entry == Entry::Served(use_of(Maintain, Bounded), ())).count();
            assert!(
                waiting >= 1 && (waiting * 2 < connections || connections == 2),
                "{waiting}/{connections}"
            );
        }
    }

    #[test]
    fn requests_of_one_purpose_are_served_in_order() {
        let mut queue = busy();
        for request in ["1", "2", "3"] {
            waits(queue.enter(Acquire, Turn::First, request));
        }
        let done = use_of(Acquire, Never);
        let served: Vec<_> = (0..3).filter_map(|_| queue.next(done)).map(|(_, request)| request).collect();
        assert_eq!(served, ["1", "2", "3"]);
    }

    #[test]
    fn renewals_and_attempts_alternate_at_worst() {
        let mut queue = busy();
        for n in ["1", "2"] {
            waits(queue.enter(Acquire, Turn::First, n));
            waits(queue.enter(Maintain, Turn::First, n));
        }
        let mut done = use_of(Acquire, Never);
        for expected in [(Maintain, "1"), (Acquire, "1"), (Maintain, "2"), (Acquire, "2")] {
            let (used, request) = queue.next(done).expect("requests wait");
            assert_eq!((used.purpose, request), expected);
            done = used;
        }
        assert_eq!(queue.next(done), None);
    }

    #[test]
    fn requests_that_come_again_let_all_others_pass() {
        let mut queue = busy();
        for purpose in [Maintain, Acquire] {
            waits(queue.enter(purpose, Turn::Again, "again"));
            waits(queue.enter(purpose, Turn::First, "first"));
        }
        let mut done = use_of(Acquire, Never);
        for expected in [(Maintain, "first"), (Acquire, "first"), (Maintain, "again"), (Acquire, "again")] {
            let (used, request) = queue.next(done).expect("requests wait");
            assert_eq!((used.purpose, request), expected);
            done = used;
        }
    }

    #[test]
    fn one_retry_per_purpose_uses_a_non_waiting_connection() {
        let mut queue = RequestQueue::new(9);
        let again = |queue: &mut RequestQueue<_>, purpose| queue.enter(purpose, Turn::Again, "again");
        for _ in 0..4 {
            assert!(matches!(again(&mut queue, Acquire), Entry::Served(Use { lock_wait: Bounded, .. }, _)));
        }
        let tries = |purpose| Use { purpose, turn: Turn::Again, lock_wait: Never };
        for purpose in [Acquire, Maintain] {
            assert_eq!(again(&mut queue, purpose), Entry::Served(tries(purpose), "again"));
            waits(again(&mut queue, purpose));
        }
        assert_eq!(
            queue.enter(Acquire, Turn::First, "first"),
            Entry::Served(use_of(Acquire, Never), "first")
        );
        assert_eq!(queue.next(use_of(Acquire, Never)), None, "its connection is for others");
        assert_eq!(queue.next(tries(Acquire)), Some((tries(Acquire), "again")));
        let waited = Use { purpose: Acquire, turn: Turn::Again, lock_wait: Bounded };
        assert_eq!(queue.next(waited), Some((Use { purpose: Maintain, ..waited }, "again")));
    }

    #[test]
    fn a_request_is_served_or_leaves_but_not_both() {
        let mut queue = busy();
        let first = waits(queue.enter(Maintain, Turn::First, "1"));
        let second = waits(queue.enter(Maintain, Turn::First, "2"));
        assert!(queue.leave(Maintain, Turn::First, first) && !queue.leave(Maintain, Turn::First, first));
        let done = use_of(Maintain, Never);
        assert_eq!(queue.next(done), Some((done, "2")));
        assert!(!queue.leave(Maintain, Turn::First, second));
    }
}
