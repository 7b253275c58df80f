//! Calls that come in one moment share a write, and nothing else.

use std::time::Duration;

use lock_core::driver::{Attempt, Release};
use lock_core::{Client, ErrorKind};
use tokio::task::JoinSet;

use crate::server::{Server, claim, granted, run};

const CALLERS: usize = 200;

/// So many claims, all granted in one moment.
async fn all_granted(client: &Client, prefix: &str) {
    let mut claims = JoinSet::new();
    for n in 0..CALLERS {
        let mut claim = claim(client, &format!("{prefix}{n}"), 20_000);
        claims.spawn(async move { granted(&mut claim).await.token });
    }
    let mut tokens = claims.join_all().await;
    assert_eq!(tokens.len(), CALLERS);
    tokens.sort_unstable();
}

pub(crate) fn calls_of_one_moment_share_a_write() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        all_granted(&client, "warm").await;
        let before: u64 = raw.info("stats", "total_reads_processed").await.parse().unwrap();
        all_granted(&client, "a").await;
        let after: u64 = raw.info("stats", "total_reads_processed").await.parse().unwrap();
        assert!(after - before < CALLERS as u64 / 2, "{} reads for {CALLERS} calls", after - before);
        // And each is answered its own answer, also where the server has to be told the script again.
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        all_granted(&client, "b").await;
        assert_eq!(raw.keys().await.len(), 3 * 2 * CALLERS);
    });
}

pub(crate) fn an_answer_that_is_an_error_is_only_its_own() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        for n in (0..CALLERS).step_by(3) {
            let _: u32 = raw.ask(&["RPUSH", &format!("x{n}"), "a list"]).await;
        }
        let mut claims = JoinSet::new();
        for n in 0..CALLERS {
            let mut claim = claim(&client, &format!("x{n}"), 20_000);
            claims.spawn(async move { (n, claim.attempt().await) });
        }
        for (n, outcome) in claims.join_all().await {
            match outcome {
                Ok(Attempt::Granted(_)) => assert_ne!(n % 3, 0),
                Err(e) => assert_eq!((n % 3, e.kind()), (0, ErrorKind::Rejected), "{e}"),
                Ok(busy) => panic!("{n}: {busy:?}"),
            }
        }
    });
}

pub(crate) fn a_cut_connection_fails_all_that_is_under_way_and_none_after() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let mut warm = claim(&client, "warm", 20_000);
        granted(&mut warm).await;
        // The server stands still while the claims ask, and cuts them off before it answers.
        let mut stall = raw.clone();
        let stalled = tokio::spawn(async move { stall.ask::<()>(&["DEBUG", "SLEEP", "0.3"]).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let kill = tokio::spawn(async move {
            raw.ask::<u32>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut claims = JoinSet::new();
        for n in 0..CALLERS {
            let mut claim = claim(&client, &format!("a{n}"), 20_000);
            claims.spawn(async move {
                let outcome = claim.attempt().await;
                (claim, outcome)
            });
        }
        let outcomes = claims.join_all().await;
        stalled.await.unwrap();
        kill.await.unwrap();
        for (mut claim, outcome) in outcomes {
            if let Err(e) = outcome {
                assert!(e.may_have_been_done(), "{e:?}");
            }
            granted(&mut claim).await;
            assert!(matches!(claim.release().await.unwrap(), Release::Released { .. }));
        }
    });
}
