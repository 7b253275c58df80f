use std::time::Duration;

use super::{Direction, Proxy};
use crate::failure::Failure;

#[tokio::test]
async fn a_fault_that_never_happens_voids_its_test() {
    let proxy = Proxy::start("127.0.0.1:1").await.unwrap();
    proxy.delay(Direction::ToClient, Duration::from_millis(1));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(proxy))).unwrap_err();
    let Failure::Void(why) = Failure::of(&*panic) else { panic!("{panic:?}") };
    assert!(why.ends_with("it never happened: {Delayed(ToClient)}"), "{why}");
}
