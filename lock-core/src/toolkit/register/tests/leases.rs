//! Grants, renewals, tokens, and what a waiter is told.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lock_takes_two_requests_renewal_and_release_one() {
    let shelf = Shelf::opaque(Tells::Stamps);
    {
        let (us, began) = (Us::on(&shelf), shelf.clock.now());
        let mut claim = us.claim();
        assert_eq!(granted(&mut claim).await.valid_for, TTL);
        assert_eq!(
            shelf.asked(),
            ["time", "read", "replace"],
            "a connection begins with a question for the time"
        );
        assert_eq!(held(&mut claim, TTL).await, TTL);
        assert_eq!(release(&mut claim).await, RELEASED);
        assert_eq!(shelf.asked(), ["replace", "replace"]);
        granted(&mut us.claim()).await;
        assert_eq!(shelf.asked(), ["read", "replace"]);
        assert_eq!(shelf.clock.now().since(began), TRIP * 2 * 7, "it waits for answers alone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_the_granting_writes_number() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    assert_eq!(granted(&mut claim).await.token.get(), 1);
    held(&mut claim, TTL).await;
    assert_eq!(granted(&mut claim).await.token.get(), 1, "granted again");
    assert_eq!(us.holder().await.unwrap().token.unwrap().get(), 1);
    release(&mut claim).await;
    assert_eq!(granted(&mut us.claim()).await.token.get(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_next_write_expects_a_keys_removal() {
    for shelf in [Shelf::numbered(), Shelf::opaque(Tells::Stamps)] {
        let us = Us::on(&shelf);
        let mut claim = us.claim();
        let before = granted(&mut claim).await.token;
        shelf.remove();
        assert!(us.holder().await.is_none());
        assert_eq!(lost(&mut claim).await, LossReason::Gone);
        assert_eq!(release(&mut claim).await, Release::NotHeld);
        assert_eq!(shelf.state().writes, 2, "the grant, and the removal");
        assert!(granted(&mut us.claim()).await.token > before);
    }
}

#[tokio::test(start_paused = true)]
async fn without_numbers_tokens_are_rising_stamps() {
    let shelf = Shelf::opaque(Tells::Stamps);
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    let first = granted(&mut claim).await.token.get();
    assert_eq!(first, u64::try_from(shelf.row().1).unwrap());
    held(&mut claim, TTL).await;
    release(&mut claim).await;
    shelf.state().set_by = -3_600_000_000;
    // The estimate is ahead now, so the first attempt may be stamped early, which does no harm.
    assert_eq!(granted(&mut us.claim()).await.token.get(), first + 1);
}

#[tokio::test(start_paused = true)]
async fn a_stamp_missing_in_the_answer_is_read() {
    let shelf = Shelf::opaque(Tells::Nothing);
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    let token = granted(&mut claim).await.token.get();
    assert_eq!(shelf.asked(), ["time", "read", "replace", "read"]);
    assert_eq!(token, u64::try_from(shelf.row().1).unwrap());
    held(&mut claim, TTL).await;
    assert_eq!(shelf.asked(), ["replace", "read"]);
    assert_eq!(us.holder().await.unwrap().token.unwrap().get(), token);
    shelf.asked();
    release(&mut claim).await;
    assert_eq!(shelf.asked(), ["replace"], "the stamp of a release decides on nothing");
}

#[tokio::test(start_paused = true)]
async fn a_held_lock_is_busy_and_nothing_is_written() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    let token = granted(&mut claim).await.token;
    shelf.asked();
    let busy = busy(&mut us.claim()).await;
    assert_eq!(shelf.asked(), ["read"]);
    let holder = busy.holder.unwrap();
    assert_eq!((holder.label.as_deref(), holder.token), (Some("some program"), Some(token)));
    assert!(busy.free_in.unwrap() <= TTL && !busy.queued);
}

/// The server's clock runs 1 % too fast, and its time was told long ago.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_never_told_more_than_is_left() {
    let shelf = Shelf::numbered().with_rate(1_010_000);
    let (holder, waiter) = (Us::on(&shelf), Us::on(&shelf));
    let mut other = waiter.claim();
    // Learns the time.
    assert_eq!(release(&mut other).await, Release::NotHeld);
    let mut claim = holder.claim_for(Duration::from_secs(60));
    granted(&mut claim).await;
    for pause in [0, 1, 2, 17] {
        shelf.clock.sleep(Duration::from_secs(pause)).await;
        let (_, stamp, _) = shelf.row();
        let told = busy(&mut other).await.free_in.unwrap();
        let left = stamp + 60_000_000 - shelf.now();
        let told = i64::try_from(told.as_micros()).unwrap();
        assert!((left - 700_000..=left).contains(&told), "{told} of {left} us");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ended_lease_is_taken_after_reading_the_time() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.clock.sleep(TTL - TRIP * 8).await;
    let mut other = us.claim();
    busy(&mut other).await;
    assert!(shelf.asked().ends_with(&["read", "time"]));
    shelf.clock.sleep(TRIP * 4).await;
    assert_eq!(granted(&mut other).await.token.get(), 2);
    assert_eq!(shelf.asked(), ["read", "time", "replace", "read"]);
    assert_eq!(lost(&mut claim).await, LossReason::Taken);
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    held(&mut other, TTL).await;
}

/// By the reader's estimate the lease is over, but the server's clock was set back since.
#[tokio::test(start_paused = true)]
async fn a_lease_is_not_over_by_an_estimate() {
    let shelf = Shelf::opaque(Tells::Stamps);
    let (holder, reader) = (Us::on(&shelf), Us::on(&shelf));
    let mut other = reader.claim();
    assert_eq!(release(&mut other).await, Release::NotHeld);
    shelf.state().set_by = -60_000_000;
    let mut claim = holder.claim();
    granted(&mut claim).await;
    let told = busy(&mut other).await;
    assert!(told.free_in.unwrap() > TTL - ms(100), "{told:?}");
    held(&mut claim, TTL).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_does_not_revive_an_ended_lease() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    assert_eq!(lost(&mut claim).await, LossReason::Gone, "never granted");
    granted(&mut claim).await;
    shelf.clock.sleep(TTL).await;
    assert_eq!(lost(&mut claim).await, LossReason::Gone);
    assert!(us.holder().await.is_none());
    assert_eq!(release(&mut claim).await, Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_never_shortens() {
    for shelf in [Shelf::numbered(), Shelf::opaque(Tells::Nothing), Shelf::opaque(Tells::Stamps)] {
        let us = Us::on(&shelf);
        let mut claim = us.claim_for(ms(500));
        granted(&mut claim).await;
        assert_eq!(held(&mut claim, TTL).await, TTL);
        let long = shelf.clock.now() + TTL;
        for _ in 0..3 {
            shelf.clock.sleep(ms(400)).await;
            let began = shelf.clock.now();
            let left = held(&mut claim, ms(500)).await;
            let really = long.since(began);
            assert!(left <= really && left >= really - TRIP * 10, "{left:?} of {really:?}");
        }
        let began = shelf.clock.now();
        let again = granted(&mut claim).await.valid_for;
        let really = long.since(began);
        assert!(again <= really && again >= really - TRIP * 10, "an attempt: {again:?} of {really:?}");
        shelf.clock.sleep(long.since(shelf.clock.now()) - ms(100)).await;
        busy(&mut us.claim()).await;
        assert_eq!(held(&mut claim, ms(500)).await, ms(500));
        shelf.clock.sleep(ms(500)).await;
        granted(&mut us.claim()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_after_long_leases_does_not_look_first() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim_for(Duration::from_secs(2));
    granted(&mut claim).await;
    for ttl in [1, 1, 1] {
        held(&mut claim, Duration::from_secs(ttl)).await;
        shelf.clock.sleep(ms(600)).await;
    }
    held(&mut claim, Duration::from_secs(1)).await;
    shelf.asked();
    held(&mut claim, Duration::from_secs(1)).await;
    assert_eq!(shelf.asked(), ["replace", "read"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_answered_is_recognised_by_a_look() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    shelf.faults([Some(Fault::AnswerLost)]);
    assert_eq!(granted(&mut claim).await.token.get(), 1);
    assert_eq!(shelf.asked(), ["time", "read", "replace", "read"], "the look tells the stamp, too");
    shelf.faults([Some(Fault::AnswerLost), Some(Fault::Silence)]);
    held(&mut claim, TTL).await;
    held(&mut claim, TTL).await;
    assert_eq!(shelf.state().connections, 2, "a connection on which no answer came is not used again");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_a_release() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let (mut claim, mut other) = (us.claim(), us.claim());
    granted(&mut claim).await;
    other.listen().await.unwrap();
    assert!(shelf.clock.timeout(TTL, other.changed()).await.is_none());
    granted(&mut claim).await;
    release(&mut claim).await;
    assert!(shelf.clock.timeout(ms(0), other.changed()).await.is_some());
    assert!(claim.watch().await.is_err(), "this server does not announce revokes");
}
