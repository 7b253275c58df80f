//! The attempts that are granted, the moment of the grant, and its token.

use std::time::Duration;

use lock_conformance::proxy::{Direction, Proxy};
use lock_core::driver::{LossReason, Release, Renewal};
use lock_core::{Client, Effect, ErrorKind};
use tokio::task::JoinSet;

use crate::server::{Raw, Server, busy, claim, claim_with, granted, run, until};

const GRANT: &str = concat!(
    include_str!("../../src/scripts/reading.lua"),
    include_str!("../../src/scripts/mint.lua"),
    include_str!("../../src/scripts/grant.lua")
);
const SUCCEED: &str = concat!(
    include_str!("../../src/scripts/reading.lua"),
    include_str!("../../src/scripts/mint.lua"),
    include_str!("../../src/scripts/take_over.lua")
);

pub(crate) fn a_token_rises_whatever_is_lost() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut last = granted(&mut claim(&client, "a", 20_000)).await.token;
        let losses: [&[&str]; 3] = [&["DEL", "a"], &["FLUSHALL"], &["DEL", "a"]];
        for loss in losses {
            let _: redis::Value = raw.ask(loss).await;
            let token = granted(&mut claim(&client, "a", 20_000)).await.token;
            assert!(token > last, "after {loss:?}: {token} after {last}");
            last = token;
        }
    });
}

pub(crate) fn a_token_ahead_of_the_clock_sets_no_time() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut first = claim(&client, "a", 20_000);
        let token = granted(&mut first).await.token.get();
        first.release().await.unwrap();
        let side = raw.keys().await.pop().unwrap();
        // What a clock that was set back by 50 minutes leaves.
        let ahead = token + 3_000_000_000;
        let _: () = raw.ask(&["SET", &side, &ahead.to_string()]).await;
        for next in 1..=3 {
            let mut claim = claim(&client, "a", 20_000);
            assert_eq!(granted(&mut claim).await.token.get(), ahead + next);
            claim.release().await.unwrap();
        }
        let forgotten: u64 = raw.ask(&["PEXPIRETIME", &side]).await;
        assert_eq!(forgotten, (ahead + 3) / 1000 + 3_600_000);
    });
}

pub(crate) fn a_handed_over_lock_has_a_whole_lease() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let _: () = raw.ask(&["SET", "a", "first", "PX", "500"]).await;
        let take_over = ["EVAL", SUCCEED, "2", "a", "t", "second", "20000", FAR, "first", "c", "NUMSUB"];
        let answer: Vec<i64> = raw.ask(&take_over).await;
        let [1, token, 20_000, 0, now] = answer[..] else { panic!("{answer:?}") };
        assert!(token >= now, "{answer:?}");
        let (left, stored): (i64, i64) = (raw.ask(&["PTTL", "a"]).await, raw.ask(&["GET", "t"]).await);
        assert!(left > 15_000 && stored == token, "{left}, {stored}");
        let again: Vec<i64> = raw.ask(&take_over).await;
        assert!(again[0] == 0 && again.len() == 2, "the first owner does not hold it: {again:?}");
    });
}

/// A deadline that is far away, in the server's time.
const FAR: &str = "9000000000000000";

pub(crate) fn the_script_refuses_an_attempt_after_its_deadline() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let (seconds, micros): (u64, u64) = raw.ask(&["TIME"]).await;
        let now = seconds * 1_000_000 + micros;
        let late = (now - 1).to_string();
        let answer: Vec<i64> = raw.ask(&["EVAL", GRANT, "2", "a", "t", "me", "1000", &late]).await;
        assert!(answer[0] == -1 && answer[1] >= now as i64, "{answer:?}");
        assert!(raw.keys().await.is_empty());
        let _: () = raw.ask(&["SET", "b", "first", "PX", "5000"]).await;
        let take_over = ["EVAL", SUCCEED, "2", "b", "t", "me", "1000", &late, "first", "c", "NUMSUB"];
        let answer: Vec<i64> = raw.ask(&take_over).await;
        assert!(answer[0] == -1 && answer.len() == 2, "{answer:?}");
        let holder: String = raw.ask(&["GET", "b"]).await;
        assert_eq!(holder, "first");
        let in_time = (now + 10_000_000).to_string();
        let answer: Vec<i64> = raw.ask(&["EVAL", GRANT, "2", "a", "t", "me", "1000", &in_time]).await;
        assert_eq!((answer[0], answer[2]), (1, 1000));
    });
}

pub(crate) fn an_attempt_read_after_its_patience_takes_nothing() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        // The connection is open and the server knows the script: only the attempt itself is late.
        let mut before = claim(&client, "b", 20_000);
        granted(&mut before).await;
        let mut late = claim_with(&client, "a", 20_000, Duration::from_millis(200));
        let error = server.stands_still(late.attempt()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error}");
        let calls = async || raw.clone().calls("evalsha").await == 2;
        until("the server has read the late attempt", calls).await;
        assert_eq!(raw.ask::<u32>(&["EXISTS", "a"]).await, 0);
        // The connection that was silent for so long is replaced, together with its estimate.
        let before = raw.connections().await;
        granted(&mut late).await;
        assert_eq!(raw.connections().await, before + 1);
    });
}

pub(crate) fn a_slow_question_puts_no_deadline_beyond_patience() {
    run(async {
        let server = Server::start(&[]);
        let raw = server.raw().await;
        let client = server.client("").await;
        granted(&mut claim(&client, "b", 20_000)).await;
        // The server's time comes from the answer to a request that took half a second to arrive.
        let (asking, mut asked) = (client.clone(), JoinSet::new());
        let meanwhile = async {
            asked.spawn(async move { granted(&mut claim(&asking, "c", 20_000)).await });
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        server.stands_still(meanwhile).await;
        asked.join_all().await;
        takes_nothing_late(&server, &client, &raw).await;
    });
}

pub(crate) fn a_token_ahead_puts_no_deadline_beyond_patience() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut first = claim(&client, "b", 20_000);
        let ahead = granted(&mut first).await.token.get() + 3_000_000_000;
        first.release().await.unwrap();
        let side = raw.keys().await.pop().unwrap();
        let _: () = raw.ask(&["SET", &side, &ahead.to_string()]).await;
        assert_eq!(granted(&mut claim(&client, "b", 20_000)).await.token.get(), ahead + 1);
        takes_nothing_late(&server, &client, &raw).await;
    });
}

/// Makes an attempt that the server reads only after its patience is over.
async fn takes_nothing_late(server: &Server, client: &Client, raw: &Raw) {
    let mut raw = raw.clone();
    let before = raw.calls("evalsha").await;
    let mut late = claim_with(client, "a", 20_000, Duration::from_millis(100));
    let error = server.stands_still(late.attempt()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error}");
    let read = async || raw.clone().calls("evalsha").await == before + 1;
    until("the server has read the late attempt", read).await;
    assert_eq!(raw.ask::<u32>(&["EXISTS", "a"]).await, 0);
}

pub(crate) fn an_attempt_with_a_stale_estimate_is_resent() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port())).await.unwrap();
        let client = lock_redis::connect(&format!("redis://{}", proxy.address())).await.unwrap();
        // The server knows the script, so each attempt is one request.
        granted(&mut claim(&client, "warm", 20_000)).await;
        // The server's time arrives 600 ms late, so the estimate is as far behind.
        proxy.delay(Direction::ToClient, Duration::from_millis(600));
        granted(&mut claim(&client, "b", 20_000)).await;
        proxy.delay(Direction::ToClient, Duration::ZERO);
        let before = raw.calls("evalsha").await;
        granted(&mut claim_with(&client, "a", 20_000, Duration::from_millis(300))).await;
        assert_eq!(raw.calls("evalsha").await, before + 2, "refused once");
    });
}

pub(crate) fn renewals_never_shorten() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut claim = claim(&client, "a", 60_000);
        granted(&mut claim).await;
        let renewal = claim.renew(Duration::from_secs(5)).await.unwrap();
        assert!(
            matches!(renewal, Renewal::Held { valid_for, .. } if valid_for > Duration::from_secs(50)),
            "{renewal:?}"
        );
        assert!(raw.ask::<i64>(&["PTTL", "a"]).await > 50_000);
        let renewal = claim.renew(Duration::from_secs(90)).await.unwrap();
        assert_eq!(renewal, Renewal::Held { valid_for: Duration::from_secs(90), age: Duration::ZERO });
        assert!(raw.ask::<i64>(&["PTTL", "a"]).await > 80_000);
    });
}

pub(crate) fn a_renewal_takes_nothing_and_reports_the_locks_fate() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut claim = claim(&client, "a", 20_000);
        granted(&mut claim).await;
        let fates: [(&[&str], LossReason); 3] = [
            (&["DEL", "a"], LossReason::Gone),
            (&["SET", "a", "another", "PX", "20000"], LossReason::Taken),
            (&["SET", "a", "00000000000000000000000000000000!ops", "PX", "20000"], LossReason::Revoked),
        ];
        for (fate, cause) in fates {
            let _: redis::Value = raw.ask(fate).await;
            let before: Option<String> = raw.ask(&["GET", "a"]).await;
            assert_eq!(claim.renew(Duration::from_secs(30)).await.unwrap(), Renewal::Lost(cause));
            assert_eq!(claim.release().await.unwrap(), Release::NotHeld);
            assert_eq!(raw.ask::<Option<String>>(&["GET", "a"]).await, before);
        }
    });
}

pub(crate) fn a_repeated_attempt_keeps_token_and_time() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut claim = claim(&client, "a", 10_000);
        let first = granted(&mut claim).await;
        assert_eq!(first.valid_for, Duration::from_secs(10));
        claim.renew(Duration::from_secs(60)).await.unwrap();
        let again = granted(&mut claim).await;
        assert_eq!(again.token, first.token);
        assert!(again.valid_for > Duration::from_secs(50), "{again:?}");
        assert!(raw.ask::<i64>(&["PTTL", "a"]).await > 50_000);
        // The token was lost in the meantime, so the next one is later.
        let side = raw.keys().await.pop().unwrap();
        let _: () = raw.ask(&["DEL", &side]).await;
        assert!(granted(&mut claim).await.token > first.token);
    });
}

pub(crate) fn a_look_at_a_held_lock_writes_nothing() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        granted(&mut claim(&client, "a", 20_000)).await;
        let _: () = raw.ask(&["CONFIG", "RESETSTAT"]).await;
        let changes = raw.info("persistence", "rdb_changes_since_last_save").await;
        let mut waiter = claim(&client, "a", 20_000);
        for _ in 0..10 {
            let free_in = busy(&mut waiter).await;
            assert!((Duration::from_secs(15)..=Duration::from_secs(20)).contains(&free_in), "{free_in:?}");
        }
        assert_eq!(raw.info("persistence", "rdb_changes_since_last_save").await, changes);
        // The first look runs the script, which calls PTTL once; each other look is one PTTL and nothing else.
        assert_eq!((raw.calls("evalsha").await, raw.calls("pttl").await), (1, 10));
    });
}

pub(crate) fn an_own_lock_is_not_mistaken_for_another_owners() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut holder = claim(&client, "a", 20_000);
        granted(&mut holder).await;
        let mut waiter = claim(&client, "a", 20_000);
        busy(&mut waiter).await;
        holder.release().await.unwrap();
        let token = granted(&mut waiter).await.token;
        assert_eq!(granted(&mut waiter).await.token, token);
        waiter.release().await.unwrap();

        // An attempt of this client, whose answer was lost, has taken the lock.
        let value = {
            granted(&mut waiter).await;
            raw.ask::<String>(&["GET", "a"]).await
        };
        waiter.release().await.unwrap();
        let mut impatient = claim_with(&client, "a", 20_000, Duration::from_millis(100));
        let error = server.stands_still(impatient.attempt()).await.unwrap_err();
        assert!(error.may_have_taken_effect(), "{error}");
        let _: () = raw.ask(&["SET", "a", &value, "PX", "20000"]).await;
        busy(&mut impatient).await;
        let _: () = raw.ask(&["CONFIG", "RESETSTAT"]).await;
        busy(&mut impatient).await;
        assert_eq!(raw.calls("evalsha").await, 1, "only the script can tell which owner holds it");
    });
}

pub(crate) fn every_call_survives_a_server_that_forgets_its_scripts() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let driver = client.driver();
        let lock = crate::server::name("a");
        let mut claim = claim(&client, "a", 20_000);
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        granted(&mut claim).await;
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        assert!(matches!(claim.renew(Duration::from_secs(30)).await, Ok(Renewal::Held { .. })));
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        assert!(driver.inspect(&lock, Duration::from_secs(1)).await.unwrap().holder.is_some());
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        assert!(matches!(claim.release().await, Ok(Release::Released { .. })));
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        assert!(driver.check(Duration::from_secs(1)).await.is_ok());
        // After it was sent in full, the server knows the script.
        granted(&mut claim).await;
        let _: () = raw.ask(&["CONFIG", "RESETSTAT"]).await;
        granted(&mut claim).await;
        assert_eq!((raw.calls("eval").await, raw.calls("evalsha").await), (0, 1));
    });
}
