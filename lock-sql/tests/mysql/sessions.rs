//! What a session is, whatever the server's defaults are; and what else goes on beside it.

use std::time::Duration;

use lock_core::driver::Release;
use lock_core::{Ending, ErrorKind};
use lock_sql::mysql;

use crate::On;
use crate::server::{PATIENCE, Server, TTL, claim, execute, free_row, granted, is_busy, run};

const MODES: &str = "--sql-mode=ANSI,ONLY_FULL_GROUP_BY,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION,NO_ZERO_DATE,\
    PAD_CHAR_TO_FULL_LENGTH";

pub(crate) fn whatever_the_servers_defaults_are(on: On) {
    run(async {
        for arguments in [
            &[MODES, "--autocommit=OFF", "--transaction-isolation=SERIALIZABLE"][..],
            &["--sql-mode=", "--transaction-isolation=READ-UNCOMMITTED", "--completion-type=2"],
        ] {
            let server = Server::start(on, arguments);
            let (client, other) = (server.client().await, server.client().await);
            let mut holder = claim(&client, "a", PATIENCE);
            let first = granted(&mut holder).await;
            assert_eq!(granted(&mut holder).await.token, first.token, "{arguments:?}");
            let mut waiter = claim(&other, "a", PATIENCE);
            assert!(is_busy(&mut waiter).await && is_busy(&mut waiter).await);
            holder.renew(TTL).await.unwrap();
            assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
            assert!(granted(&mut waiter).await.token > first.token, "{arguments:?}");
        }
    });
}

/// The clock that a deadline is compared with shows the session's time zone.
pub(crate) fn whatever_the_servers_time_zone_is(on: On) {
    run(async {
        for zone in ["+05:00", "-11:00"] {
            let server = Server::start(on, &[&format!("--default-time-zone={zone}")]);
            let client = server.client().await;
            free_row(&client, "a").await;
            let mut raw = server.raw().await;
            execute(&mut raw, "BEGIN").await;
            execute(&mut raw, "UPDATE onelock_locks SET label = 'x'").await;
            claim(&client, "a", Duration::from_millis(400)).attempt().await.unwrap_err();
            execute(&mut raw, "COMMIT").await;
            server.running("UPDATE", 0).await;
            let held = "SELECT COUNT(*) FROM onelock_locks WHERE owner <> ''";
            assert_eq!(server.number(held).await, 0, "{zone}");
            granted(&mut claim(&client, "a", PATIENCE)).await;
        }
    });
}

pub(crate) fn a_server_whose_sysdate_stands_still_is_refused(on: On) {
    run(async {
        let server = Server::start(on, &["--sysdate-is-now"]);
        let error = mysql::connect(&server.url("")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("sysdate-is-now"), "{error}");
    });
}

/// B8: the locks' connections are not the user's.
pub(crate) fn a_users_transaction_that_stays_open_costs_no_lock(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        server.execute("CREATE TABLE bills (total INT) ENGINE=InnoDB").await;
        let mut users = server.raw().await;
        execute(&mut users, "BEGIN").await;
        execute(&mut users, "INSERT INTO bills VALUES (42)").await;
        let ttl = Duration::from_millis(600);
        let guard = client.lock("a").ttl(ttl).build().unwrap().acquire().await.unwrap();
        tokio::time::sleep(ttl * 3).await;
        let other = client.lock("a").build().unwrap().try_acquire().await.unwrap();
        guard.check().expect("held");
        assert!(other.is_none(), "{other:?}");
        execute(&mut users, "ROLLBACK").await;
        guard.check().expect("the lock was part of the user's transaction");
        assert_eq!(guard.release().await, Ending::Released);
    });
}
