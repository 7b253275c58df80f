//! Calls that come at the same moment share a write, and nothing else.

use std::time::Duration;

use futures_util::FutureExt;
use lock_conformance::proxy::{Cut, Direction, Fault, Proxy};
use lock_conformance::timing::within;
use lock_core::driver::{Attempt, Claim, Release};
use lock_core::{Client, ErrorKind, Result};
use tokio::task::JoinSet;

use crate::server::{Server, claim, granted, run, until};

const CALLERS: usize = 200;

/// Makes attempts with `CALLERS` claims at the same moment. All have to be granted.
async fn all_granted(client: &Client, prefix: &str) {
    for (_, outcome) in all_ask(client, prefix).await {
        assert!(matches!(outcome, Ok(Attempt::Granted(_))), "{outcome:?}");
    }
}

/// Makes attempts with `CALLERS` claims, all sent before anything else is done, and returns their outcomes.
async fn all_ask(client: &Client, prefix: &str) -> Vec<(Box<dyn Claim>, Result<Attempt>)> {
    let claims = (0..CALLERS).map(|n| claim(client, &format!("{prefix}{n}"), 20_000));
    let asking = claims.map(async |mut claim| {
        let outcome = claim.attempt().await;
        (claim, outcome)
    });
    futures_util::future::join_all(asking).await
}

/// Runs a test on one thread, on which ready tasks run in their order.
pub(crate) fn run_on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(within("the test ends", Duration::from_secs(30), test));
}

pub(crate) fn calls_of_one_moment_share_a_write() {
    run_on_one_thread(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        all_granted(&client, "warm").await;
        let before: u64 = raw.info("stats", "total_reads_processed").await.parse().unwrap();
        all_granted(&client, "a").await;
        let after: u64 = raw.info("stats", "total_reads_processed").await.parse().unwrap();
        // The first call is sent alone and the others in one write, which the server reads in large pieces.
        let reads = after - before;
        assert!(reads < CALLERS as u64 / 10, "{reads} reads for {CALLERS} calls");
        // Each call gets its own answer, also where the server has to be sent the script again.
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        all_granted(&client, "b").await;
        assert_eq!(raw.keys().await.len(), 3 * 2 * CALLERS);
    });
}

pub(crate) fn an_ended_runtime_leaves_no_unsent_queue() {
    let server = Server::start(&[]);
    let lasting = tokio::runtime::Runtime::new().unwrap();
    let client = lasting.block_on(async {
        let client = server.client("").await;
        all_granted(&client, "warm").await;
        client
    });
    let ending = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    {
        // The calls are queued. This runtime does not run, and so not the task that sends them.
        let _entered = ending.enter();
        assert!(all_ask(&client, "left").now_or_never().is_none());
    }
    drop(ending);
    lasting.block_on(within("the test ends", Duration::from_secs(30), all_granted(&client, "a")));
}

pub(crate) fn an_error_answer_fails_only_its_own_call() {
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

pub(crate) fn a_cut_connection_fails_only_calls_in_flight() {
    run_on_one_thread(async {
        let server = Server::start(&[]);
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port())).await.unwrap();
        let client = lock_redis::connect(&format!("redis://{}", proxy.address())).await.unwrap();
        granted(&mut claim(&client, "warm", 20_000)).await;
        proxy.hold_open_ones(Direction::ToServer);
        let cut = async {
            let is_held = async || proxy.count(Fault::Held(Direction::ToServer)) > 0;
            until("they are on their way", is_held).await;
            proxy.cut(Cut::Reset);
        };
        let (outcomes, ()) = tokio::join!(all_ask(&client, "a"), cut);
        for (mut claim, outcome) in outcomes {
            let error = outcome.expect_err("its connection was cut");
            assert!(error.may_have_taken_effect(), "{error:?}");
            granted(&mut claim).await;
            assert!(matches!(claim.release().await.unwrap(), Release::Released { .. }));
        }
    });
}
