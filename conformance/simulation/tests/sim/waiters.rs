//! The checker's own tests: waiters are served in their turn and at once, and nothing is left behind.

use lock_simulation::{FamilyName, Fate, Fault, Invariant, Kind, Loss, Parting, Wait, WakesBy, What, Why};

use crate::logs::*;

fn places(calls: impl Into<Vec<usize>>) -> What {
    What::Places { lock: 0, calls: calls.into() }
}

fn begins(kind: Kind, begins: u64, ends: u64) -> What {
    What::Begins(Fault { kind, begins: begins * 1000, ends: ends * 1000 })
}

fn released(call: usize) -> What {
    What::ReleaseArrived { of: Some(call), before: Some(call), after: None }
}

#[test]
fn a_waiter_that_gets_no_free_lock_is_caught() {
    let begin = || vec![(1, asked(0, 0)), (2, granted(0, 7)), (3, asked(1, 1)), (10, let_go(0))];
    let ends = |at| vec![(at, nothing())];
    leaves_alone([begin(), ends(2_300)].concat());
    catches_at(Invariant::Liveness, [begin(), ends(2_400)].concat());
    // The waiter has the lock, it went away, or its wait is over.
    leaves_alone(
        [begin(), vec![(2_300, granted(1, 8)), (2_301, held(1)), (2_302, let_go(1))], ends(9_000)].concat(),
    );
    let gone = What::NotGranted { call: 1, why: Why::Cancelled };
    leaves_alone([begin(), vec![(2_300, gone)], ends(9_000)].concat());
    let mut impatient = begin();
    let waits = Wait::For(std::time::Duration::from_secs(1));
    impatient[2].1 = What::Asked { call: 1, client: 1, lock: 0, terms: TERMS, waits };
    leaves_alone([impatient, ends(9_000)].concat());
    // A fault extends its time until the fault is over. A lost push extends it until the core looks by itself.
    leaves_alone([begin(), vec![(500, begins(Kind::Partition(1), 500, 2_000))], ends(4_300)].concat());
    catches_at(
        Invariant::Liveness,
        [begin(), vec![(500, begins(Kind::Partition(1), 500, 2_000))], ends(4_400)].concat(),
    );
    let unheard = || vec![(500, What::Missed { client: 1, server: 0, fate: Fate::NewsLost })];
    leaves_alone([begin(), unheard(), ends(7_800)].concat());
    catches_at(Invariant::Liveness, [begin(), unheard(), ends(8_000)].concat());
    // A process that was killed keeps the lock for the rest of its lease.
    let killed = || {
        let begin = vec![(1, asked(0, 0)), (2, granted(0, 7)), (3, asked(1, 1))];
        [begin, vec![(500, begins(Kind::Death(0), 500, 500))]].concat()
    };
    leaves_alone([killed(), ends(2_700)].concat());
    catches_at(Invariant::Liveness, [killed(), ends(3_000)].concat());
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
    leaves_alone([begin(1), frees(), ends(60)].concat());
    catches_at(Invariant::WokenUp, [begin(1), frees(), ends(62)].concat());
    leaves_alone([begin(1), frees(), vec![(60, holder(Some(1))), (60, granted(1, 8))], ends(500)].concat());
    // On several servers no candidate may win, once or twice.
    leaves_alone([begin(3), frees(), ends(300)].concat());
    catches_at(Invariant::WokenUp, [begin(3), frees(), ends(320)].concat());
    // The waiter has the lock at the server, and doesn't know it.
    catches_at(Invariant::WokenUp, [begin(1), frees(), vec![(12, holder(Some(1)))], ends(70)].concat());
    let twice = What::Missed { client: 1, server: 0, fate: Fate::Twice { until: 12_000 } };
    leaves_alone(
        [begin(1), vec![(4, twice.clone())], frees(), vec![(12, holder(Some(1)))], ends(70)].concat(),
    );
    // One of the nodes has granted the lock to another call meanwhile. Still, a request that came twice has given the
    // waiter its majority.
    let another = vec![(12, holder(Some(1))), (20, What::Parts { lock: 0, calls: vec![1, 5] })];
    leaves_alone([begin(3), vec![(4, twice)], frees(), another, ends(400)].concat());
    // A lease that ends by itself is announced to no client, and a client that stood still has not heard of it.
    leaves_alone([begin(1), vec![(10, let_go(0)), (11, holder(None))], ends(70)].concat());
    leaves_alone([begin(1), vec![(4, begins(Kind::Pause(1), 4, 50))], frees(), ends(300)].concat());
    // Where waiters also look by themselves, another bound applies.
    let looks = vec![(1, asked(0, 0)), (1, holder(Some(0))), (2, granted(0, 7)), (3, asked(1, 1))];
    leaves_alone([looks, frees(), ends(500)].concat());
}

#[test]
fn a_record_left_by_an_ended_client_is_caught() {
    let shut_down = |client| What::ShutDown { client, left: 0 };
    let begin =
        || vec![(2_000, asked(0, 0)), (2_001, holder(Some(0))), (2_001, granted(0, 7)), (2_002, let_go(0))];
    catches_at(Invariant::NoOrphan, [begin(), vec![(2_010, shut_down(0))]].concat());
    leaves_alone([begin(), vec![(2_005, holder(None)), (2_010, shut_down(0))]].concat());
    leaves_alone([begin(), vec![(2_010, shut_down(1))]].concat());
    // A place in the queue counts, too.
    catches_at(Invariant::NoOrphan, vec![(1, asked(0, 0)), (2, places([1, 0])), (3, shut_down(0))]);
    // A message that came twice may have taken the lock since.
    let twice = What::Missed { client: 0, server: 0, fate: Fate::Twice { until: 2_005_000 } };
    leaves_alone([begin(), vec![(2_003, twice), (2_010, shut_down(0))]].concat());
    // When all that is over, nothing may be left, whatever went wrong.
    let remains = |calls: &[usize]| What::Remains { lock: 0, calls: calls.to_vec() };
    leaves_alone([(1, begins(Kind::Wipe(0, Loss::Flushed), 1, 1)), (9_000, remains(&[]))]);
    catches_at(Invariant::NoOrphan, [begin(), vec![(9_000, remains(&[0]))]].concat());
}

#[test]
fn a_waiter_served_before_its_turn_is_caught() {
    let queue =
        || vec![(1, asked(0, 0)), (1, asked(1, 1)), (1, asked(2, 2)), (2, places([0])), (2, holder(Some(0)))];
    let queued = || [queue(), vec![(3, granted(0, 7)), (4, places([0, 1])), (5, places([2, 0, 1]))]].concat();
    let frees = || vec![(6, What::LetGo { call: 0, parting: Parting::Release, left: 500_000 })];
    let next = |call| vec![(7, places([2, 1])), (7, holder(Some(call)))];
    leaves_alone([queued(), frees(), next(1)].concat());
    catches_at(Invariant::Order, [queued(), frees(), next(2)].concat());
    // The call before it went away.
    let gone = || {
        vec![(6, What::NotGranted { call: 1, why: Why::Cancelled }), (7, places([2])), (7, holder(Some(2)))]
    };
    leaves_alone([queued(), frees(), gone()].concat());
    // The call before it still waits: its place must not go, unless its session has ended.
    let lost = || vec![(7, places([2])), (7, holder(Some(2)))];
    catches_at(Invariant::Order, [queued(), frees(), lost()].concat());
    leaves_alone([queued(), vec![(6, begins(Kind::SessionEnd(1), 6, 6))], frees(), lost()].concat());
    // A call that revokes has the first place, although it asked last.
    let revokes =
        What::Revokes { call: 3, client: 3, lock: 0, when: lock_core::driver::When::HoldersDeadline };
    leaves_alone([queued(), vec![(6, revokes), (7, places([3, 1, 2])), (7, holder(Some(3)))]].concat());
}
