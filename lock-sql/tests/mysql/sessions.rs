//! Sessions, with any defaults of the server, and beside other transactions.

use std::time::{Duration, Instant};

use lock_core::driver::{Claim, Release, Renewal};
use lock_core::{Client, ErrorKind};
use lock_sql::mysql;

use crate::On;
use crate::server::{PATIENCE, Server, TTL, claim, claim_for, execute, free_row, granted, is_busy, run};
use lock_conformance::timing::{released, still_held, within};

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
            assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
            assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
            assert!(granted(&mut waiter).await.token > first.token, "{arguments:?}");
        }
    });
}

// Proves: B7, holder-in-time-zone
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
            a_lease_ends_at_its_time(&client, &server.client().await, zone).await;
        }
    });
}

/// Checks that a lease ends at its time, and not hours before or later.
async fn a_lease_ends_at_its_time(holder: &Client, other: &Client, zone: &str) {
    let ttl = Duration::from_millis(1500);
    let (mut held, mut next) = (claim_for(holder, "b", ttl, PATIENCE), claim(other, "b", PATIENCE));
    let asked = Instant::now();
    let grant = granted(&mut held).await;
    assert!(grant.valid_for <= ttl && grant.valid_for + asked.elapsed() >= ttl, "{zone}: {grant:?}");
    until_granted("the lease ends", &mut next, ttl + Duration::from_millis(300)).await;
    // The whole ttl passed between the grant and the answer to the second claim.
    assert!(asked.elapsed() >= ttl - Duration::from_millis(2), "{zone}: free after {:?}", asked.elapsed());
}

async fn until_granted(what: &str, next: &mut Box<dyn Claim>, limit: Duration) {
    within(what, limit, async {
        while is_busy(next).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Starts a server on which sessions of the user `guest` begin with these statements, as behind a proxy that other
/// clients have used before. Returns it and the guest's URL.
async fn server_for_guests(on: On, begins: &str) -> (Server, String) {
    let server = Server::start(on, &[&format!("--init-connect={begins}")]);
    server.execute("CREATE DATABASE elsewhere").await;
    server.execute("CREATE USER guest").await;
    for database in ["elsewhere", server.database()] {
        server.execute(&format!("GRANT ALL ON {database}.* TO guest")).await;
    }
    let guest = server.url_of("guest", "");
    (server, guest)
}

// Proves: mysql-table, pooler
pub(crate) fn a_session_from_another_database_finds_the_table(on: On) {
    run(async {
        let (server, guest) = server_for_guests(on, "USE elsewhere").await;
        let guest = mysql::connect(&guest).await.unwrap();
        let host = server.client().await;
        granted(&mut claim(&host, "a", PATIENCE)).await;
        assert!(is_busy(&mut claim(&guest, "a", PATIENCE)).await);
        let table = format!("{}.onelock_locks", server.database());
        assert!(guest.info().server.ends_with(&table), "{}", guest.info().server);
    });
}

// Proves: pooler
pub(crate) fn whatever_a_session_begins_with(on: On) {
    run(async {
        let begins = "SET sql_select_limit = 0, sql_safe_updates = 1, max_join_size = 1, sql_big_selects = 0, \
            autocommit = 0, time_zone = '+05:00', sql_mode = 'ANSI'";
        let (server, guest) = server_for_guests(on, begins).await;
        let (guest, host) = (mysql::connect(&guest).await.unwrap(), server.client().await);
        let mut holder = claim(&guest, "a", PATIENCE);
        granted(&mut holder).await;
        assert!(is_busy(&mut claim(&host, "a", PATIENCE)).await);
        assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        granted(&mut claim(&host, "a", PATIENCE)).await;
        assert!(is_busy(&mut claim(&guest, "a", PATIENCE)).await);
    });
}

/// With this clock, leases would end in the first second of another year, or never.
pub(crate) fn a_session_whose_clock_was_set_is_refused(on: On) {
    run(async {
        let (server, guest) = server_for_guests(on, "SET timestamp = 1000000000").await;
        server.client().await;
        let error = mysql::connect(&guest).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("SET timestamp"), "{error}");
    });
}

// Proves: error-kinds
pub(crate) fn a_server_whose_sysdate_stands_still_is_refused(on: On) {
    run(async {
        let server = Server::start(on, &["--sysdate-is-now"]);
        let error = mysql::connect(&server.url("")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("sysdate-is-now"), "{error}");
    });
}

// Proves: B8, user-transaction
/// B8: the connections for locks are not the user's.
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
        still_held(&guard);
        assert!(other.is_none(), "{other:?}");
        execute(&mut users, "ROLLBACK").await;
        still_held(&guard);
        released(guard).await;
    });
}
