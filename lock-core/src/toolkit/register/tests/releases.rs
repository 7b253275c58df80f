//! Releases: of this owner's alone, answered, lost, and told.

use super::*;
use crate::error::Effect;

#[tokio::test(start_paused = true)]
async fn a_release_frees_once_and_only_its_own() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let (mut claim, mut other) = (us.claim(), us.claim());
    granted(&mut claim).await;
    let revision = shelf.row().2;
    assert_eq!(release(&mut other).await, Release::NotHeld);
    assert_eq!(shelf.row().2, revision);
    assert_eq!(release(&mut claim).await, RELEASED);
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    granted(&mut other).await;
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    held(&mut other, TTL).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_release_answer_errs_and_retry_finds_nothing() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.faults([Some(Fault::AnswerLost)]);
    assert_eq!(effect(claim.release().await), Effect::Unknown);
    assert!(us.holder().await.is_none());
    let mut other = us.claim();
    granted(&mut other).await;
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    held(&mut other, TTL).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_after_a_clock_jump_is_late() {
    let shelf = Shelf::opaque(Tells::Stamps);
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.state().set_by = 60_000_000;
    assert_eq!(release(&mut claim).await, Release::NotHeld);
}

/// Nothing of the time is learned from a release whose answer does not tell it.
#[tokio::test(start_paused = true)]
async fn a_release_keeps_the_clock_estimate() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.clock.sleep(ms(3000)).await;
    assert_eq!(release(&mut claim).await, RELEASED);
    shelf.asked();
    granted(&mut us.claim()).await;
    assert_eq!(shelf.asked(), ["read", "replace", "read"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_not_told_is_not_done() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.state().untold = 1;
    assert_eq!(effect(claim.release().await), Effect::Unknown);
    assert!(us.holder().await.is_none() && shelf.state().told.is_empty());
    shelf.asked();
    assert_eq!(release(&mut claim).await, RELEASED);
    assert_eq!(shelf.asked(), Vec::<&str>::new());
    assert_eq!(shelf.state().told, [Notice::Released("a".to_owned())]);
    assert_eq!(release(&mut claim).await, Release::NotHeld);
}

#[tokio::test(start_paused = true)]
async fn a_late_release_frees_only_what_its_owner_had() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    shelf.faults([Some(Fault::Late(PATIENCE))]);
    assert_eq!(effect(claim.release().await), Effect::Unknown);
    assert_eq!(release(&mut claim).await, RELEASED);
    let mut other = us.claim();
    granted(&mut other).await;
    shelf.clock.sleep(PATIENCE).await;
    held(&mut other, TTL).await;
}
