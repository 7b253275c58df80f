//! The checker's own tests: waiters are served in their turn and at once, and nothing is left behind.

use lock_simulation::{FamilyName, Fate, Invariant, Kind, Loss, Wait, WakesBy, What, Why};

use crate::logs::*;

fn places(calls: impl Into<Vec<usize>>) -> What {
    What::Places { lock: 0, calls: calls.into() }
}

#[test]
fn a_waiter_that_gets_no_free_lock_is_caught() {
    let begin = || vec![(1, asked(0, 0)), (2, granted(0, 7)), (3, asked(1, 1)), (10, let_go(0))];
    let ends = |at| vec![(at, nothing())];
    leaves_alone([begin(), ends(2_300)]);
    catches(Invariant::Liveness, [begin(), ends(2_400)]);
    // The waiter has the lock, it went away, or its wait is over.
    leaves_alone([begin(), vec![(2_300, granted(1, 8)), (2_301, held(1)), (2_302, let_go(1))], ends(9_000)]);
    let gone = not_granted(1, Why::Cancelled);
    leaves_alone([begin(), vec![(2_300, gone)], ends(9_000)]);
    let mut impatient = begin();
    let waits = Wait::For(std::time::Duration::from_secs(1));
    impatient[2].1 = What::Asked { call: 1, client: 1, lock: 0, terms: TERMS, waits };
    leaves_alone([impatient, ends(9_000)]);
    // A fault extends its time until the fault is over. A lost push extends it until the core looks by itself.
    leaves_alone([begin(), vec![(500, begins(Kind::Partition(1), 500, 2_000))], ends(4_300)]);
    catches(Invariant::Liveness, [begin(), vec![(500, begins(Kind::Partition(1), 500, 2_000))], ends(4_400)]);
    let unheard = || vec![(500, missed(1, 0, Fate::NewsLost))];
    leaves_alone([begin(), unheard(), ends(7_800)]);
    catches(Invariant::Liveness, [begin(), unheard(), ends(8_000)]);
    // A process that was killed keeps the lock for the rest of its lease.
    let killed = || {
        let begin = vec![(1, asked(0, 0)), (2, granted(0, 7)), (3, asked(1, 1))];
        [begin, vec![(500, begins(Kind::Death(0), 500, 500))]].concat()
    };
    leaves_alone([killed(), ends(2_700)]);
    catches(Invariant::Liveness, [killed(), ends(3_000)]);
}

#[test]
fn a_waiter_that_is_not_woken_is_caught() {
    let by_pushes = |servers| vec![(0, opens(FamilyName::Lease, servers, WakesBy::PushesAlone))];
    let begin = |servers| {
        let asks = vec![(1, asked(0, 0)), (1, holder(Some(0))), (2, granted(0, 7)), (3, asked(1, 1))];
        [by_pushes(servers), asks].concat()
    };
    let frees = || vec![(10, let_go(0)), (11, holder(None)), (11, released(0))];
    let ends = |at| vec![(at, nothing())];
    leaves_alone([begin(1), frees(), ends(60)]);
    catches(Invariant::WokenUp, [begin(1), frees(), ends(62)]);
    leaves_alone([begin(1), frees(), vec![(60, holder(Some(1))), (60, granted(1, 8))], ends(500)]);
    // On several servers no candidate may win, once or twice.
    leaves_alone([begin(3), frees(), ends(300)]);
    catches(Invariant::WokenUp, [begin(3), frees(), ends(320)]);
    // The waiter has the lock at the server, and doesn't know it.
    catches(Invariant::WokenUp, [begin(1), frees(), vec![(12, holder(Some(1)))], ends(70)]);
    let twice = missed(1, 0, Fate::Twice(12_000));
    leaves_alone([begin(1), vec![(4, twice.clone())], frees(), vec![(12, holder(Some(1)))], ends(70)]);
    // One of the nodes has granted the lock to another call meanwhile. Still, a request that came twice has given the
    // waiter its majority.
    let another = vec![(12, holder(Some(1))), (20, What::Parts { lock: 0, calls: vec![1, 5] })];
    leaves_alone([begin(3), vec![(4, twice)], frees(), another, ends(400)]);
    // A lease that ends by itself is announced to no client, and a client that stood still has not heard of it.
    leaves_alone([begin(1), vec![(10, let_go(0)), (11, holder(None))], ends(70)]);
    leaves_alone([begin(1), vec![(4, begins(Kind::Pause(1), 4, 50))], frees(), ends(300)]);
    // Where waiters also look by themselves, another bound applies.
    let looks = vec![(1, asked(0, 0)), (1, holder(Some(0))), (2, granted(0, 7)), (3, asked(1, 1))];
    leaves_alone([looks, frees(), ends(500)]);
}

#[test]
fn a_record_left_by_an_ended_client_is_caught() {
    let shut_down = |client| What::ShutDown { client, left: 0 };
    let begin =
        || vec![(2_000, asked(0, 0)), (2_001, holder(Some(0))), (2_001, granted(0, 7)), (2_002, let_go(0))];
    catches(Invariant::NoOrphan, [begin(), vec![(2_010, shut_down(0))]]);
    leaves_alone([begin(), vec![(2_005, holder(None)), (2_010, shut_down(0))]]);
    leaves_alone([begin(), vec![(2_010, shut_down(1))]]);
    // A place in the queue counts, too.
    catches(Invariant::NoOrphan, [vec![(1, asked(0, 0)), (2, places([1, 0])), (3, shut_down(0))]]);
    // A message that came twice may have taken the lock since.
    let twice = missed(0, 0, Fate::Twice(2_005_000));
    leaves_alone([begin(), vec![(2_003, twice), (2_010, shut_down(0))]]);
    // When all that is over, nothing may be left, whatever went wrong.
    let remains = |calls: &[usize]| What::Remains { lock: 0, calls: calls.to_vec() };
    leaves_alone([vec![(1, begins(Kind::Wipe(0, Loss::Flushed), 1, 1)), (9_000, remains(&[]))]]);
    catches(Invariant::NoOrphan, [begin(), vec![(9_000, remains(&[0]))]]);
}

#[test]
fn a_waiter_served_before_its_turn_is_caught() {
    let queue =
        || vec![(1, asked(0, 0)), (1, asked(1, 1)), (1, asked(2, 2)), (2, places([0])), (2, holder(Some(0)))];
    let queued = || [queue(), vec![(3, granted(0, 7)), (4, places([0, 1])), (5, places([2, 0, 1]))]].concat();
    let frees = || vec![(6, let_go(0))];
    let next = |call| vec![(7, places([2, 1])), (7, holder(Some(call)))];
    leaves_alone([queued(), frees(), next(1)]);
    catches(Invariant::Order, [queued(), frees(), next(2)]);
    // The call before it went away.
    let gone = || vec![(6, not_granted(1, Why::Cancelled)), (7, places([2])), (7, holder(Some(2)))];
    leaves_alone([queued(), frees(), gone()]);
    // The call before it still waits: its place must not go, unless its session has ended.
    let lost = || vec![(7, places([2])), (7, holder(Some(2)))];
    catches(Invariant::Order, [queued(), frees(), lost()]);
    leaves_alone([queued(), vec![(6, begins(Kind::SessionEnd(1), 6, 6))], frees(), lost()]);
    // A call that revokes has the first place, although it asked last.
    leaves_alone([queued(), vec![(6, revokes(0)), (7, places([5, 1, 2])), (7, holder(Some(5)))]]);
}
