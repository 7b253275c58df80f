//! Connections that are of no more use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use lock_conformance::proxy::{Fault, Proxy, Way};
use lock_conformance::servers::{MongoDb, StandaloneMongoDb};
use lock_core::driver::Renewal;
use lock_core::{Done, ErrorKind};

use crate::server::{LONG, Server, claim, claim_with, granted, open, run, until};

/// As when a firewall forgets all that it has let through: the driver's pool would hand out one after the other.
pub(crate) fn connections_that_died_together_cost_one_patience() {
    run(async {
        let server = Server::start(&MongoDb, &[]);
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.0.port())).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        // Less than the driver takes to find out by itself; enough for a link to be made anew.
        let mut holder = claim_with(&client, "held", LONG, Duration::from_secs(3));
        granted(&mut holder).await;
        // Many at once, so that the pool has many.
        proxy.delay(Way::ToClient, Duration::from_millis(200));
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..12 {
            let mut claim = claim(&client, &format!("another {n}"), LONG);
            tasks.spawn(async move { granted(&mut claim).await });
        }
        tasks.join_all().await;
        proxy.delay(Way::ToClient, Duration::ZERO);

        proxy.hold_open_ones(Way::ToServer);
        proxy.hold_open_ones(Way::ToClient);
        let error = holder.renew(LONG).await.expect_err("its connection is dead");
        assert_eq!(error.kind(), ErrorKind::Unavailable { done: Done::Unknown }, "{error:?}");
        assert!(matches!(holder.renew(LONG).await.expect("on a new one"), Renewal::Held { .. }));
    });
}

/// An answer that comes when a call has just begun may be from before the network died.
pub(crate) fn an_answer_at_a_calls_beginning_keeps_no_dead_link() {
    run(async {
        let server = Server::start(&MongoDb, &[]);
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.0.port())).await.unwrap();
        let client = open(&server.through(proxy.address())).await;
        let mut holder = claim_with(&client, "held", LONG, Duration::from_secs(3));
        granted(&mut holder).await;
        let die = || [Way::ToServer, Way::ToClient].map(|way| proxy.hold_open_ones(way));
        die();
        let renewal = tokio::spawn(async move { (holder.renew(LONG).await, holder) });
        let is_held = || async { proxy.count(Fault::Held(Way::ToServer)) > 0 };
        until("the renewal is on its way", Duration::from_secs(1), is_held).await;
        // Its connection is the only one that is open: this one is answered on another, which dies after that.
        granted(&mut claim(&client, "another", LONG)).await;
        die();
        let (renewed, mut holder) = renewal.await.expect("no panic");
        let error = renewed.expect_err("its connection is dead");
        assert_eq!(error.kind(), ErrorKind::Unavailable { done: Done::Unknown }, "{error:?}");
        assert!(matches!(holder.renew(LONG).await.expect("on a new one"), Renewal::Held { .. }));
    });
}

/// Again and again, since it takes two threads that meet.
pub(crate) fn a_program_that_drops_its_client_as_its_last_act_ends_in_silence() {
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
    let server = Server::start(&StandaloneMongoDb, &[]);
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
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "panics of the driver");
}
