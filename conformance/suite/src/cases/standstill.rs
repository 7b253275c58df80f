//! A client whose own runtime stands still, while its callers go on elsewhere.

use lock_core::{Ending, ErrorKind, LossReason, Options};
use tokio::runtime::Builder;

use crate::bounds;
use crate::case::{Case, case};
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Setting, ms};
use crate::timing::{until, within};

pub(crate) const CASES: &[Case] =
    &[case!(calls_end_while_the_clients_runtime_stands_still, "runtime-stands-still", [B11, B20])];

async fn calls_end_while_the_clients_runtime_stands_still(s: Setting) {
    let (held, free, setting) = (s.name(), s.name(), s.clone());
    let name = held.clone();
    // No thread drives this runtime when the client holds its lock.
    let (home, client, guard) = on_a_thread(move || {
        let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = home.block_on(setting.client_with(Options::default().patience(ms(500))));
        let guard = home.block_on(setting.hold_by(&client, &name));
        (home, client, guard)
    })
    .await;
    let lock = s.lock(&client, &free).wait(ms(300)).built();
    let ends = "the call of a client whose runtime stands still";
    for outcome in [
        within(ends, bounds::EVENTUALLY, guard.renew(s.ttl())).await.map(drop),
        within(ends, bounds::EVENTUALLY, lock.acquire()).await.map(drop),
        within(ends, bounds::EVENTUALLY, lock.try_acquire()).await.map(drop),
        within(ends, bounds::EVENTUALLY, lock.run(async |_| ())).await,
        within(ends, bounds::EVENTUALLY, lock.inspect()).await.map(drop),
        within(ends, bounds::EVENTUALLY, client.check()).await.map(drop),
        within(ends, bounds::EVENTUALLY, client.init()).await.map(drop),
    ] {
        let error = outcome.expect_err("its runtime stands still");
        assert!(error.to_string().contains("dedicated"), "{error}");
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. } | ErrorKind::Lost), "{error:?}");
    }
    let lost = within("the loss is told", bounds::EVENTUALLY, guard.lost()).await;
    assert!(matches!(lost, LossReason::Expired | LossReason::Session), "{lost:?}");
    assert_eq!(within(ends, bounds::EVENTUALLY, guard.release()).await, Ending::Expired);
    assert_ne!(client.shutdown(ms(50)).await, 0, "the claims of its callers wait for it");
    // What its callers have given up leaves nothing when it goes on.
    let left = on_a_thread(move || {
        let left = home.block_on(client.shutdown(bounds::EVENTUALLY));
        drop((lock, client));
        left
    })
    .await;
    assert_eq!(left, 0);
    for name in [&held, &free] {
        until("it is free", bounds::before_the_end(s.long()), || s.is_free(name)).await;
    }
}
