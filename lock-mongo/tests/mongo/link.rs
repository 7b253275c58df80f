//! Dead connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Direction, Fault, Proxy};
use lock_core::driver::Renewal;
use lock_core::{Effect, ErrorKind, Options};
use lock_mongo::mongodb::bson::{DateTime, doc};
use lock_test_servers::MongoDb;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::server::{Answered, LONG, Server, claim, claim_with, granted, key, locks, open, run, until};
use lock_conformance::timing::Returned;

// Proves: connections-cut
/// As when a firewall forgets all connections: the `mongodb` crate's pool would hand out one dead connection after the
/// other.
pub(crate) fn connections_that_died_together_cost_one_patience() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.0.port())).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        // Less than the `mongodb` crate needs to notice by itself; enough to open another link.
        let mut holder = claim_with(&client, "held", LONG, Duration::from_secs(3));
        granted(&mut holder).await;
        // Many requests at once, so that the pool opens many connections.
        proxy.delay(Direction::ToClient, Duration::from_millis(200));
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..12 {
            let mut claim = claim(&client, &format!("another {n}"), LONG);
            tasks.spawn(async move { granted(&mut claim).await });
        }
        tasks.join_all().await;
        proxy.delay(Direction::ToClient, Duration::ZERO);

        proxy.hold_open_ones(Direction::ToServer);
        proxy.hold_open_ones(Direction::ToClient);
        let error = holder.renew(LONG).await.expect_err("its connection is dead");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        assert!(matches!(holder.renew(LONG).await.expect("it is on a new connection"), Renewal::Held { .. }));
    });
}

/// A client's first call checks the collection, and the calls of other tasks wait for that.
pub(crate) fn a_silent_server_costs_one_patience_and_few_connections() {
    run(async {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let (counted, connections) = watch::channel(0);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = silent.accept().await {
                open.push(connection);
                counted.send_replace(open.len());
            }
        });
        let client = open(&format!("mongodb://{address}/app?lazy=true")).await;
        let mut first = claim_with(&client, "first", LONG, Duration::from_secs(4));
        let first = tokio::spawn(async move { first.attempt().await });
        connections.clone().wait_for(|connections| *connections > 0).await.unwrap();
        let asked = Instant::now();
        let patience = Duration::from_millis(200);
        let mut hasty = claim_with(&client, "hasty", LONG, patience);
        let error = hasty.attempt().await.expect_err("the server is silent");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error}");
        assert_in_time!(asked.elapsed() < patience + Duration::from_secs(1), "{:?}", asked.elapsed());

        let mut others = tokio::task::JoinSet::new();
        for n in 0..50 {
            let mut claim = claim_with(&client, &format!("another {n}"), LONG, Duration::from_secs(1));
            others.spawn(async move { claim.attempt().await.expect_err("the server is silent") });
        }
        for error in others.join_all().await {
            assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error}");
        }
        first.await.unwrap().expect_err("the server is silent");
        // A link that has answered nothing is replaced, by one call at a time.
        let connections = *connections.borrow();
        assert!(connections <= 20, "{connections} connections for 52 calls");
    });
}

/// An answer that comes when a call has just begun may have been sent before the network died.
pub(crate) fn an_early_answer_keeps_no_dead_link() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.0.port())).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        let mut holder = claim_with(&client, "held", LONG, Duration::from_secs(3));
        granted(&mut holder).await;
        let die =
            || [Direction::ToServer, Direction::ToClient].map(|direction| proxy.hold_open_ones(direction));
        die();
        let renewal = tokio::spawn(async move { (holder.renew(LONG).await, holder) });
        let is_held = || async { proxy.count(Fault::Held(Direction::ToServer)) > 0 };
        until("the renewal is on its way", Duration::from_secs(1), is_held).await;
        // The renewal's connection is the only open one: this claim is answered on another, which dies after that.
        granted(&mut claim(&client, "another", LONG)).await;
        die();
        let (renewed, mut holder) = renewal.await.returned();
        let error = renewed.expect_err("its connection is dead");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        assert!(matches!(holder.renew(LONG).await.expect("it is on a new connection"), Renewal::Held { .. }));
    });
}

/// The server's refusal is an answer: it proves that the link is alive, though another call is not answered.
pub(crate) fn a_document_that_others_keep_costs_no_link() {
    const SHORT: Duration = Duration::from_secs(2);
    const ATTEMPTS: i32 = 4;
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let options = Options::default().patience(SHORT);
        let client = lock_mongo::connect_with(server.0.url(), options).answered().await;
        let raw = server.raw().await;
        granted(&mut claim(&client, "kept", LONG)).await;
        let kept = doc! { "_id": key("kept") };
        let ended = doc! { "$set": { "expires": DateTime::from_millis(0) } };
        locks(&raw).update_one(kept.clone(), ended).await.unwrap();
        let mut keeper = raw.start_session().await.unwrap();
        keeper.start_transaction().await.unwrap();
        let change = doc! { "$set": { "label": "kept" } };
        locks(&raw).update_one(kept, change).session(&mut keeper).await.unwrap();
        let slow = doc! { "failCommands": ["find"], "blockConnection": true, "blockTimeMS": 3000 };
        server.admin(doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": slow }).await;

        let connections = async || {
            let status = raw.database("admin").run_command(doc! { "serverStatus": 1 }).await.unwrap();
            status.get_document("connections").unwrap().get_i32("totalCreated").unwrap()
        };
        let (before, other) = (connections().await, client.lock("other").build().unwrap());
        let mut waiter = claim_with(&client, "kept", LONG, SHORT);
        for _ in 0..ATTEMPTS {
            let (refused, unanswered) = tokio::join!(waiter.attempt(), other.inspect());
            let error = refused.expect_err("a transaction is open on its document");
            assert!(error.is_transient(), "{error:?}");
            unanswered.expect_err("its answer comes later");
        }
        let opened = connections().await - before;
        // Another link has more than two connections.
        assert!(opened < 2 * ATTEMPTS, "{opened} connections were opened");
    });
}

/// Is tried many times, because the failure depends on the timing of two threads.
pub(crate) fn a_client_dropped_last_ends_silently() {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    const WORKER: &str = "drops its client";
    let own = thread::current().id();
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Other tests drop their clients at the same time.
        let thread = thread::current();
        let is_ours = thread.id() == own || thread.name() == Some(WORKER);
        if is_ours && panic.location().is_some_and(|at| at.file().contains("connection_requester")) {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        others(panic);
    }));
    let server = Server::start(&MongoDb::Standalone, &[]);
    for _ in 0..300 {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).thread_name(WORKER).enable_all().build().unwrap();
        runtime.block_on(async {
            let client = server.client().await;
            let mut claim = claim(&client, "a", LONG);
            granted(&mut claim).await;
            claim.release().await.unwrap();
        });
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "panics of the `mongodb` crate");
}
