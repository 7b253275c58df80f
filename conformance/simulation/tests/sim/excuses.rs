//! The checker's own tests: what excuses an overlap, and for how long; and which causes and endings a loss and a
//! release may report.

use std::time::Duration;

use lock_core::{Ending, LossReason};
use lock_simulation::{
    FamilyName, Fate, History, Invariant, Kind, Report, Tally, Terms, Verdict, WakesBy, What, Why,
};

use crate::logs::*;

fn shortened(call: usize, token: u64, until: u64) -> What {
    What::Shortened { call, token, until: until * 1000 }
}

fn lost(client: usize) -> What {
    missed(client, 0, Fate::Lost)
}

/// Call 0 holds the lock, the server ends its grant at 10 ms, and call 1 is granted the lock at `at` (in milliseconds).
fn overlap(what: Vec<(u64, What)>, at: u64, token: u64) -> Vec<(u64, What)> {
    let begin = vec![(1, asked(0, 0)), (2, granted(0, 7)), (3, asked(1, 1))];
    let cut = vec![(10, shortened(0, token, 600))];
    let end = vec![(at, granted(1, 8)), (at, held(0))];
    [begin, cut, what, end].concat()
}

#[test]
fn a_lease_ended_early_excuses_overlap_until_its_renewal() {
    let violations = |what, token, at| verdict([overlap(what, at, token)]).violations.len();
    assert_eq!(excused(Invariant::Exclusion, [overlap(vec![], 100, 7)]), 1);
    assert_eq!(excused(Invariant::LossInTime, [overlap(vec![], 100, 7)]), 1);
    // A third of the ttl later, its holder has been told.
    assert_eq!(violations(vec![], 7, 220), 2);
    // If that renewal was lost, or there is none, the excuse lasts for as long as the lease would have lasted.
    assert_eq!(violations(vec![(150, lost(0))], 7, 220), 0);
    assert_eq!(violations(vec![(150, lost(0))], 7, 601), 2);
    assert_eq!(violations(vec![(150, lost(1))], 7, 220), 2, "the lost message is another client's");
    // The server has it again for as long as its holder may rely on it.
    assert_eq!(violations(vec![(50, What::Restored(0))], 7, 100), 2);
    // A grant other than the one that was ended.
    assert_eq!(violations(vec![], 6, 100), 2);
}

#[test]
fn a_renewal_lost_before_the_end_excuses_an_overlap() {
    let violations = |fate, lost_at, at| {
        let begin = vec![(1, asked(0, 0)), (2, granted(0, 7)), (3, asked(1, 1))];
        let end = vec![(300, shortened(0, 7, 800)), (at, granted(1, 8)), (at, held(0))];
        verdict([begin, vec![(lost_at, missed(0, 0, fate))], end]).violations.len()
    };
    assert_eq!(violations(Fate::Lost, 200, 520), 0);
    assert_eq!(violations(Fate::Lost, 200, 801), 2, "the lease would be over");
    assert_eq!(violations(Fate::Lost, 90, 520), 2, "its client had given it up, and asked again");
    assert_eq!(violations(Fate::NewsLost, 200, 520), 2, "no renewal was lost");
}

/// Of three servers, two had voted for call 0, and were made to end that before the third voted for it.
#[test]
fn an_ended_majority_excuses_a_grant_with_higher_token() {
    let violations = |servers, shortened_at, at: u64| {
        let mut log = vec![
            (0, opens(FamilyName::Redlock, servers, WakesBy::PushesAndLooks)),
            (1, asked(0, 0)),
            (2, asked(1, 1)),
            (9, granted(1, 7)),
            (shortened_at, shortened(0, u64::MAX, 607)),
            (20, granted(0, 8)),
            (at, held(1)),
        ];
        log.sort_by_key(|(at, _)| *at);
        verdict([log]).violations.len()
    };
    assert_eq!(violations(3, 6, 21), 0);
    assert_eq!(violations(3, 6, 240), 1, "the renewal of call 0 has shown the end");
    assert_eq!(violations(3, 25, 30), 2, "its votes were ended after its grant");
    assert_eq!(violations(1, 6, 21), 2, "one server has one order");
}

/// A proof that is younger than a third of the ttl counts as a renewal, too. It may be from before the lease was ended.
#[test]
fn a_session_is_asked_again_after_a_ninth() {
    let queue = || vec![(0, opens(FamilyName::Queue, 1, WakesBy::PushesAndLooks))];
    let violations = |at| verdict([queue(), overlap(vec![], at, 7)]).violations.len();
    assert_eq!(violations(260), 0);
    assert_eq!(violations(290), 2);
}

/// The lease of the successor was ended, too, and an attempt that came twice gave the first holder the lock again.
#[test]
fn a_holder_again_is_alone_once_the_successor_knows() {
    let begin = [overlap(vec![], 100, 7), vec![(101, holder(Some(1))), (102, shortened(1, 8, 600))]].concat();
    let stands = [begin.clone(), vec![(103, holder(Some(0)))]].concat();
    let told = What::Told { call: 1, cause: Some(LossReason::Gone), late: 0, left: 450_000 };
    let successor_is_told = vec![(150, told)];
    leaves_alone([stands.clone(), successor_is_told.clone(), vec![(400, held(0))]]);
    catches(Invariant::Exclusion, [stands, vec![(400, held(0))]]);
    let anothers = vec![(160, holder(None)), (400, held(0))];
    catches(Invariant::Exclusion, [begin, successor_is_told, anothers]);
}

#[test]
fn a_wait_behind_the_clients_caller_excuses_a_timeout() {
    let times_out = |client, what: Vec<(u64, What)>| {
        let begin = vec![(2_000, asked(0, 0)), (2_100, asked(1, client))];
        [begin, what, vec![(3_500, not_granted(1, Why::Timeout))]]
    };
    let left = |at| (at, not_granted(0, Why::Cancelled));
    assert_eq!(excused(Invariant::TruthfulRefusal, times_out(0, vec![])), 1);
    catches(Invariant::TruthfulRefusal, times_out(1, vec![]));
    // The turn of the waiter has come: the server had no time for an answer in the first case, and had time in the
    // second.
    assert_eq!(excused(Invariant::TruthfulRefusal, times_out(0, vec![left(3_400)])), 1);
    catches(Invariant::TruthfulRefusal, times_out(0, vec![left(3_000)]));
    // The other call's attempt was not answered, and is undone first.
    assert_eq!(excused(Invariant::TruthfulRefusal, times_out(0, vec![(2_200, lost(0)), left(3_000)])), 1);
    catches(Invariant::TruthfulRefusal, times_out(0, vec![(2_200, lost(0)), left(2_300)]));
}

/// A node of several has heard an earlier try of the call once more.
#[test]
fn a_doubled_attempt_excuses_a_timeout_on_several_servers() {
    let log = |servers| {
        [vec![
            (0, opens(FamilyName::Redlock, servers, WakesBy::PushesAndLooks)),
            (2_000, asked(0, 0)),
            (2_050, missed(0, 1, Fate::Twice(2_100_000))),
            (2_700, not_granted(0, Why::Timeout)),
        ]]
    };
    assert_eq!(excused(Invariant::TruthfulRefusal, log(3)), 1);
    catches(Invariant::TruthfulRefusal, log(1));
}

/// The server refuses the call in front, an attempt of which was revoked, until its clock has caught up.
#[test]
fn a_clock_set_back_excuses_trouble_after_a_revoke() {
    let log = |by, refused| {
        [vec![
            (2, revokes(0)),
            (2, begins(Kind::Step(0, by), 2, 2)),
            (1_900, asked(0, 0)),
            (2_000, asked(1, 0)),
            (refused, not_granted(1, Why::Unavailable)),
        ]]
    };
    assert_eq!(excused(Invariant::TruthfulRefusal, log(-2_000_000, 2_500)), 1);
    catches(Invariant::TruthfulRefusal, log(2_000_000, 2_500));
    catches(Invariant::TruthfulRefusal, log(-2_000_000, 3_200));
}

#[test]
fn a_release_after_a_clock_set_back_is_excused() {
    let begin = || vec![(2_000, asked(0, 0)), (2_001, granted(0, 7)), (2_002, let_go(0))];
    let released = || vec![(2_500, What::Ended { call: 0, ending: Ending::Released })];
    let step = |by| vec![(2_100, begins(Kind::Step(0, by), 2_100, 2_100))];
    assert_eq!(excused(Invariant::HonestRelease, [begin(), step(-1_000), released()]), 1);
    catches(Invariant::HonestRelease, [begin(), step(1_000), released()]);
}

/// A server may lose its vote before the last server of the majority gives its own. No majority has the lock at one time
/// then, and the release ends it on a majority all the same.
#[test]
fn a_release_that_a_majority_has_heard_is_honest() {
    let begin = || {
        let opens = opens(FamilyName::Redlock, 5, WakesBy::PushesAndLooks);
        vec![(0, opens), (2_000, asked(0, 0)), (2_001, granted(0, 7))]
    };
    let parts = |parts: &[(u64, usize)]| -> Vec<(u64, What)> {
        parts.iter().map(|&(grant, server)| (2_003, What::PartReleased { call: 0, grant, server })).collect()
    };
    let released = || vec![(2_005, What::Ended { call: 0, ending: Ending::Released })];
    let go = || vec![(2_002, let_go(0))];
    let heard = |heard| [begin(), go(), parts(heard), released()];
    assert_eq!(excused(Invariant::HonestRelease, heard(&[(1, 0), (1, 2), (1, 4)])), 0);
    // Two of five; the same server again; another try's parts; and what was released before the hold was let go.
    catches(Invariant::HonestRelease, heard(&[(1, 0), (1, 2)]));
    catches(Invariant::HonestRelease, heard(&[(1, 0), (1, 2), (1, 2)]));
    catches(Invariant::HonestRelease, heard(&[(1, 0), (1, 2), (2, 4)]));
    let before = [begin(), parts(&[(1, 0), (1, 2), (1, 4)]), vec![(2_004, let_go(0))], released()];
    catches(Invariant::HonestRelease, before);
}

#[test]
fn a_fixed_lease_ended_early_is_believed_throughout() {
    let fixed = Terms { fixed: true, ..TERMS };
    let log = |at| {
        let begin = vec![(1, asked_on(0, 0, fixed)), (2, granted(0, 7)), (3, asked(1, 1))];
        [begin, vec![(10, shortened(0, 7, 600)), (at, granted(1, 8)), (at, held(0))]]
    };
    leaves_alone(log(590));
    assert!(!verdict(log(605)).violations.is_empty());
}

#[test]
fn an_overlap_excuses_no_write_out_of_order() {
    let stale = vec![(101, wrote(1, 8, true)), (102, wrote(0, 7, true))];
    catches(Invariant::FencedExclusion, [overlap(vec![], 100, 7), stale]);
}

#[test]
fn excuses_beyond_their_share_are_told() {
    let report = |excused| {
        let mut verdict = Verdict::default();
        verdict.opportunities[Invariant::Exclusion as usize] = 1000;
        verdict.excused[Invariant::Exclusion as usize] = excused;
        let (seed, family, tally) = (0, FamilyName::Redlock, Tally::default());
        let mut report = Report::default();
        report.add(History { seed, family, log: Vec::new(), tally, verdict });
        report.excessive()
    };
    assert_eq!(report(5), Vec::<String>::new());
    assert_eq!(report(100), ["I3  exclusion in time"]);
}

/// No other call is granted the lock, so no other entry shows the loss.
#[test]
fn a_guard_that_is_never_told_is_caught() {
    let begin = || vec![(1, asked(0, 0)), (2, granted(0, 7)), (2, held(0))];
    catches(Invariant::LossInTime, [begin(), vec![(700, nothing())]]);
    leaves_alone([begin(), vec![(600, held(0)), (700, nothing()), (800, let_go(0))]]);
    // A client that stands still is told when it goes on.
    let stands = || vec![(3, begins(Kind::Pause(0), 3, 900)), (700, nothing())];
    leaves_alone([begin(), stands()]);
    catches(Invariant::LossInTime, [begin(), stands(), vec![(901, nothing())]]);
}

#[test]
fn a_loss_told_for_a_wrong_reason_is_caught() {
    let begin = || vec![(2_000, asked(0, 0)), (2_001, granted(0, 7)), (2_002, held(0))];
    let tells = |cause, left| [begin(), vec![(2_100, told(cause, left))]];
    let after = |what, cause, left| [begin(), vec![(2_050, what), (2_100, told(cause, left))]];
    let every = [
        LossReason::Revoked,
        LossReason::Taken,
        LossReason::Gone,
        LossReason::Session,
        LossReason::MaxHold,
        LossReason::RuntimeEnded,
    ];
    for cause in every {
        catches(Invariant::Reasons, tells(cause, 500));
    }
    catches(Invariant::Reasons, tells(LossReason::Expired, 0));
    for cause in [LossReason::Gone, LossReason::Session] {
        leaves_alone(after(lost(0), cause, 500));
        leaves_alone(after(shortened(0, 7, 2_600), cause, 500));
    }
    leaves_alone(after(lost(0), LossReason::Expired, 0));
    catches(Invariant::Reasons, after(lost(0), LossReason::Expired, 100));
    leaves_alone(after(revokes(0), LossReason::Revoked, 500));
    catches(Invariant::Reasons, after(revokes(1), LossReason::Revoked, 500));
    catches(Invariant::Reasons, after(lost(0), LossReason::Taken, 500));
    let taken = vec![(2_001, holder(Some(0))), (2_040, shortened(0, 7, 2_600)), (2_050, holder(Some(1)))];
    leaves_alone([begin(), taken, vec![(2_100, told(LossReason::Taken, 500))]]);
    let opens = vec![(0, opens(FamilyName::Lease, 1, WakesBy::PushesAndLooks))];
    let [begin, told] = after(lost(0), LossReason::Session, 500);
    catches(Invariant::Reasons, [opens, begin, told]);
}

#[test]
fn a_hold_that_ends_at_max_hold_ends_then() {
    let capped = Terms { max_hold: Some(Duration::from_millis(300)), ..TERMS };
    let ends = |at| {
        [vec![
            (1, asked_on(0, 0, capped)),
            (2, granted(0, 7)),
            (3, What::Held { call: 0, left: (at - 3) * 1000 }),
            (at, told(LossReason::MaxHold, 0)),
        ]]
    };
    leaves_alone(ends(301));
    catches(Invariant::Reasons, ends(250));
}

#[test]
fn a_refusal_for_trouble_without_trouble_is_caught() {
    let ask = || vec![(2_000, asked(0, 0))];
    for why in [Why::Unavailable, Why::Lost] {
        let refused = || vec![(2_900, not_granted(0, why))];
        catches(Invariant::TruthfulRefusal, [ask(), refused()]);
        leaves_alone([ask(), vec![(2_100, lost(0))], refused()]);
        catches(Invariant::TruthfulRefusal, [ask(), vec![(2_100, lost(1))], refused()]);
        catches(Invariant::TruthfulRefusal, [vec![(900, lost(0))], ask(), refused()]);
    }
    // Of several servers, a majority has to be disturbed, unless the call is so short that one silent server explains
    // the refusal.
    let opens = || vec![(0, opens(FamilyName::Redlock, 3, WakesBy::PushesAndLooks))];
    let missed = |server| vec![(2_100, missed(0, server, Fate::Lost))];
    let refused = |at| vec![(at, not_granted(0, Why::Unavailable))];
    catches(Invariant::TruthfulRefusal, [opens(), ask(), missed(1), refused(2_900)]);
    leaves_alone([opens(), ask(), missed(1), missed(2), refused(2_900)]);
    leaves_alone([opens(), ask(), missed(1), refused(2_200)]);
}

#[test]
fn a_release_wrongly_told_as_late_is_caught() {
    let begin = || vec![(2_000, asked(0, 0)), (2_001, granted(0, 7)), (2_002, let_go(0))];
    let arrives = |before, after| vec![(2_003, What::ReleaseArrived { of: Some(0), before, after })];
    let expired = || vec![(2_005, What::Ended { call: 0, ending: Ending::Expired })];
    // The release ended its own hold.
    catches(Invariant::HonestRelease, [begin(), arrives(Some(0), None), expired()]);
    let unheard = [begin(), arrives(Some(0), None), vec![(2_004, lost(0))], expired()];
    assert_eq!(excused(Invariant::HonestRelease, unheard), 1);
    // Nothing had ended the hold, and no release that ended it arrived.
    catches(Invariant::HonestRelease, [begin(), arrives(None, None), expired()]);
    catches(Invariant::HonestRelease, [begin(), expired()]);
    let missed = [vec![(1_900, lost(0))], begin(), arrives(None, None), expired()];
    assert_eq!(excused(Invariant::HonestRelease, missed), 1);
    let cut = [begin(), vec![(2_002, shortened(0, 7, 2_600))], arrives(None, None), expired()];
    assert_eq!(excused(Invariant::HonestRelease, cut), 0);
    assert_eq!(excused(Invariant::HonestRelease, [begin(), vec![(2_003, lost(0))], expired()]), 1);
}
