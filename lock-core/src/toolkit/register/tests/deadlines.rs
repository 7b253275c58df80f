//! Writes that come late.

use super::*;
use crate::error::Effect;

#[tokio::test(start_paused = true)]
async fn an_attempt_that_comes_after_its_call_takes_nothing() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    shelf.faults([Some(Fault::Late(PATIENCE))]);
    assert_eq!(effect(claim.attempt().await), Effect::Unknown);
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    shelf.clock.sleep(PATIENCE).await;
    let (row, ..) = shelf.row();
    assert_eq!(
        (row.change(), us.holder().await.is_none()),
        (Change::Granted, true),
        "it is stored, and void"
    );
    assert_eq!(granted(&mut us.claim()).await.token.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_release_undoes_an_attempt_in_time() {
    let shelf = Shelf::opaque(Tells::Stamps);
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    shelf.faults([Some(Fault::Late(PATIENCE / 2))]);
    assert_eq!(effect(claim.attempt().await), Effect::Unknown);
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    shelf.clock.sleep(PATIENCE).await;
    assert!(us.holder().await.is_some());
    assert_eq!(release(&mut claim).await, RELEASED);
    assert!(us.holder().await.is_none());
}

/// The server's clock was set forward: the first write is void, though it came in time.
#[tokio::test(start_paused = true)]
async fn a_void_attempt_reads_the_time_and_rewrites() {
    for shelf in [Shelf::numbered(), Shelf::opaque(Tells::Stamps), Shelf::opaque(Tells::Nothing)] {
        let us = Us::on(&shelf);
        let mut claim = us.claim();
        assert_eq!(release(&mut claim).await, Release::NotHeld);
        shelf.state().set_by = 2_000_000;
        shelf.asked();
        assert_eq!(granted(&mut claim).await.valid_for, TTL);
        let asked = shelf.asked();
        assert_eq!(asked.iter().filter(|asked| **asked == "replace").count(), 2, "{asked:?}");
        assert!(asked.contains(&"time"));
        assert!(us.holder().await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_comes_after_its_lease_is_void() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim_for(ms(500));
    granted(&mut claim).await;
    shelf.faults([Some(Fault::Late(ms(600)))]);
    assert_eq!(effect(claim.renew(TTL).await), Effect::Unknown);
    shelf.clock.sleep(ms(600)).await;
    assert_eq!(shelf.row().0.change(), Change::Renewed);
    assert!(us.holder().await.is_none());
    assert_eq!(lost(&mut claim).await, LossReason::Gone);
    assert_eq!(granted(&mut us.claim()).await.token.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_counts_and_the_next_looks_first() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.faults([Some(Fault::Late(ms(900)))]);
    assert_eq!(effect(claim.renew(TTL).await), Effect::Unknown);
    shelf.asked();
    assert_eq!(held(&mut claim, TTL).await, TTL);
    assert_eq!(shelf.asked()[0], "read");
    let revision = shelf.row().2;
    shelf.clock.sleep(ms(900)).await;
    assert_eq!(shelf.row().2, revision, "the late one was refused");
}

/// The server's clock was set forward beyond the end of the lease: the renewal is void to every reader, whatever its
/// writer had estimated.
#[tokio::test(start_paused = true)]
async fn a_forward_clock_jump_loses_the_renewal() {
    for shelf in [Shelf::numbered(), Shelf::opaque(Tells::Stamps)] {
        let us = Us::on(&shelf);
        let mut claim = us.claim();
        granted(&mut claim).await;
        shelf.state().set_by = 60_000_000;
        assert_eq!(lost(&mut claim).await, LossReason::Gone);
        assert!(us.holder().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_must_be_stamped_within_its_call() {
    for rate in [990_000, 1_000_000, 1_010_000] {
        let shelf = Shelf::opaque(Tells::Stamps).with_rate(rate);
        let us = Us::on(&shelf);
        let mut claim = us.claim();
        assert_eq!(release(&mut claim).await, Release::NotHeld);
        shelf.clock.sleep(Duration::from_secs(4)).await;
        let began = shelf.clock.now();
        let start = shelf.now();
        granted(&mut claim).await;
        let over = start + i64::try_from(PATIENCE.as_micros()).unwrap() * rate / 1_000_000;
        let until = shelf.row().0.until.unwrap();
        assert!(until <= over, "{} us after the call is over", until - over);
        assert!(until >= over - 150_000, "{} us", over - until);
        assert!(shelf.clock.now().since(began) <= TRIP * 6);
    }
}
