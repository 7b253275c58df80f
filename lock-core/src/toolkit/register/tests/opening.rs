//! The driver's calls without a claim.

use super::*;

fn context(shelf: &Shelf) -> Context {
    struct Zeros;

    impl RandomSource for Zeros {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }
    Context::new(shelf.clock.clone(), Random::new(Zeros), PATIENCE)
}

#[tokio::test(start_paused = true)]
async fn a_driver_connects_on_opening_or_first_call() {
    let shelf = Shelf::numbered();
    let lazy = RegisterDriver::open(shelf.clone(), &context(&shelf), Opening::Lazy).await.unwrap();
    assert_eq!(shelf.state().connections, 0);
    lazy.check(PATIENCE).await.unwrap();
    assert_eq!(shelf.state().connections, 1);
    RegisterDriver::open(shelf.clone(), &context(&shelf), Opening::Waits).await.unwrap();
    assert_eq!(shelf.state().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn a_check_reports_reachability_clock_and_own_findings() {
    let shelf = Shelf::numbered().with_rate(1_030_000);
    let us = Us::on(&shelf);
    let subjects =
        |found: Vec<Finding>| found.iter().map(|found| (found.subject, found.level)).collect::<Vec<_>>();
    let (good, rights) = (("reachable", Level::Good), ("rights", Level::Good));
    let found = us.0.check(PATIENCE).await.unwrap();
    assert_eq!(subjects(found), [good, ("clock", Level::Unknown), rights]);
    shelf.clock.sleep(TTL * 3).await;
    let found = us.0.check(PATIENCE).await.unwrap();
    assert_eq!(subjects(found), [good, ("clock", Level::Warning), rights]);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_needs_once_is_made_by_init() {
    let us = Us::on(&Shelf::numbered());
    assert_eq!(us.0.init(PATIENCE).await.unwrap(), "made a shelf");
    assert_eq!(us.0.info().backend, "shelf");
}

/// Neither the estimate of an hour ago nor a guess of the present.
#[tokio::test(start_paused = true)]
async fn the_time_is_unix_time_read_during_calls() {
    let shelf = Shelf::numbered().with_rate(990_000);
    let mut claim = Us::on(&shelf).claim();
    assert_eq!(release(&mut claim).await, Release::NotHeld);
    shelf.clock.sleep(Duration::from_secs(3600)).await;
    let before = shelf.now();
    let told = claim.server_time().await.expect("the server answers").as_micros() + shelf::EPOCH;
    assert!((before..=shelf.now()).contains(&told), "{before}, then {told}");
}
