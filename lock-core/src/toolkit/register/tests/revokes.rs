//! Revokes, at the holder's deadline and at once.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_revoked_lock_is_free_at_its_holders_deadline() {
    for shelf in [Shelf::numbered(), Shelf::opaque(Tells::Stamps)] {
        let us = Us::on(&shelf);
        let mut claim = us.claim();
        let token = granted(&mut claim).await.token;
        let ends = shelf.row().1 + 10_000_000;
        shelf.clock.sleep(ms(3000)).await;
        let Revoked::FreeIn(free_in) = us.revoke(When::HoldersDeadline).await else { panic!("it was held") };
        assert!(free_in <= TTL - ms(2950) && free_in > TTL - ms(3100), "{free_in:?}");
        assert_eq!(lost(&mut claim).await, LossReason::Revoked);
        let holder = us.holder().await.unwrap();
        assert_eq!((holder.label.as_deref(), holder.token), (Some("an operator"), Some(token)));
        let mut other = us.claim();
        while shelf.now() < ends - 20_000 {
            busy(&mut other).await;
            shelf.clock.sleep(ms(500)).await;
        }
        shelf.clock.sleep(ms(30)).await;
        assert!(granted(&mut other).await.token > token);
        assert_eq!(lost(&mut claim).await, LossReason::Revoked, "also after another owner has it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_twice_revoked_holder_still_frees_the_name() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    for revokes in 1..3 {
        let mut claim = us.claim();
        granted(&mut claim).await;
        for _ in 0..revokes {
            us.revoke(When::HoldersDeadline).await;
        }
        assert_eq!(lost(&mut claim).await, LossReason::Revoked);
        assert_eq!(release(&mut us.claim()).await, Release::NotHeld);
        assert_eq!(release(&mut claim).await, RELEASED);
        assert!(us.holder().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_broken_now_is_free_at_once() {
    let shelf = Shelf::opaque(Tells::Stamps);
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    let token = granted(&mut claim).await.token;
    let owner = us.holder().await.unwrap().owner.to_string();
    assert_eq!(us.revoke(When::Now).await, Revoked::Free);
    assert_eq!(shelf.state().told, [Notice::Revoked(owner), Notice::Released("a".to_owned())]);
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    let mut other = us.claim();
    assert!(granted(&mut other).await.token > token);
    assert_eq!(lost(&mut claim).await, LossReason::Revoked);
    held(&mut other, TTL).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_that_was_seen_is_revoked() {
    let shelf = Shelf::numbered();
    let us = Us::on(&shelf);
    let mut claim = us.claim();
    granted(&mut claim).await;
    let holder = us.holder().await.unwrap().owner;
    release(&mut claim).await;
    let revocation = || {
        let label = Label::new("an operator");
        Revocation::new(holder.clone(), mint(), label, When::Now, PATIENCE)
    };
    assert_eq!(us.0.revoke(&a(), revocation()).await.unwrap(), Revoked::NotHeld);
    let mut other = us.claim();
    granted(&mut other).await;
    assert_eq!(us.0.revoke(&a(), revocation()).await.unwrap(), Revoked::NotHeld);
    held(&mut other, TTL).await;
}
