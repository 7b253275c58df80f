//! Redisson's read/write locks are hashes as well, and no locks of this layout: one name can't be both.

use std::time::Duration;

use lock_conformance::timing::within;
use lock_core::driver::{Release, Renewal, Revocation, When};
use lock_core::{ErrorKind, Label, LossReason, Owner, OwnerBytes, Random};

use crate::server::{Raw, Server, claim, granted, name, run};

const LAYOUTS: [&str; 2] = ["?layout=redisson", "?layout=redisson&fenced=1"];
const THREAD: &str = "b983c153-8e53-4c04-beb8-0c34d6e0237d:57";
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes a read/write lock as a thread of Redisson's does: it looks at the field `mode` alone, and adds to what is there.
async fn takes(raw: &mut Raw, mode: &str) {
    let field = if mode == "write" { format!("{THREAD}:write") } else { THREAD.to_owned() };
    let _: u32 = raw.ask(&["HSET", "n", "mode", mode, &field, "1"]).await;
    let _: u32 = raw.ask(&["PEXPIRE", "n", "60000"]).await;
}

fn is_named(error: &lock_core::Error) {
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(
        error.message().contains("RReadWriteLock") && error.message().contains("another name"),
        "{error}"
    );
}

// Proves: redisson
pub(crate) fn a_read_write_lock_is_named_and_left_alone() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        for (layout, mode) in LAYOUTS.iter().flat_map(|layout| [(layout, "read"), (layout, "write")]) {
            let client = server.client(layout).await;
            takes(&mut raw, mode).await;
            let before = raw.dump("n").await;
            is_named(&claim(&client, "n", 20_000).attempt().await.unwrap_err());
            let lock = client.lock("n").build().unwrap();
            is_named(&within("no waiter waits for it", PATIENCE * 2, lock.acquire()).await.unwrap_err());
            is_named(&client.driver().inspect(&name("n"), PATIENCE).await.unwrap_err());
            for (holder, when) in ["mode", THREAD]
                .iter()
                .flat_map(|holder| [(holder, When::Now), (holder, When::HoldersDeadline)])
            {
                let (holder, by) = (OwnerBytes::new(holder.as_bytes()), Owner::mint(&Random::system()));
                let revocation = Revocation::new(holder, by, Label::new("ops"), when, PATIENCE);
                is_named(&client.driver().revoke(&name("n"), revocation).await.unwrap_err());
            }
            assert_eq!(raw.dump("n").await, before);
            let _: () = raw.ask(&["FLUSHALL"]).await;
        }
    });
}

// Proves: redisson
/// Redisson grants it while ours is held.
pub(crate) fn a_read_write_lock_over_ours_ends_ours() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        for layout in LAYOUTS {
            let client = server.client(layout).await;
            let mut ours = claim(&client, "n", 20_000);
            granted(&mut ours).await;
            takes(&mut raw, "read").await;
            assert_eq!(ours.renew(Duration::from_secs(20)).await.unwrap(), Renewal::Lost(LossReason::Taken));
            assert!(matches!(ours.release().await.unwrap(), Release::Released { .. }));
            let mut fields: Vec<String> = raw.ask(&["HKEYS", "n"]).await;
            fields.sort();
            assert_eq!(fields, [THREAD, "mode"], "{layout}");
            assert!(raw.ask::<i64>(&["PTTL", "n"]).await > 0);
            let _: () = raw.ask(&["FLUSHALL"]).await;
        }
    });
}

pub(crate) fn a_release_takes_its_own_field_alone() {
    run(async {
        let server = Server::start(&[]);
        let (mut raw, client) = (server.raw().await, server.client(LAYOUTS[0]).await);
        let mut ours = claim(&client, "n", 20_000);
        granted(&mut ours).await;
        let _: u32 = raw.ask(&["HSET", "n", "another", "1"]).await;
        assert!(matches!(ours.release().await.unwrap(), Release::Released { .. }));
        assert_eq!(raw.ask::<Vec<String>>(&["HKEYS", "n"]).await, ["another"]);
    });
}
