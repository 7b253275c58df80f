// Proves: check-server
//! Servers that refuse every lock, and how they are told from servers that do not answer.

use std::time::Duration;

use lock_conformance::proxy::Proxy;
use lock_conformance::timing::{Answered, released};
use lock_conformance::{paging, refusal};
use lock_core::ErrorKind;
use lock_core::driver::Level;
use lock_etcd::etcd_client::{AlarmAction, AlarmType, Txn, TxnOp};

use crate::access::restricted;
use crate::server::{LONG, Server, claim, granted, open, run};

/// The alarm lasts until an administrator ends it.
pub(crate) fn a_server_whose_quota_is_used_up_is_bad() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (client, mut raw) = (server.client().await, server.raw().await);
        let guard = client.lock("held").ttl(LONG).build().unwrap().acquire().answered().await;
        raw.alarm(AlarmAction::Activate, AlarmType::Nospace, None).await.unwrap();
        refusal::is_told(&client, "etcdctl alarm disarm").await;
        let error = claim(&client, "a", LONG).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "no wait ends it: {error:?}");
        // A lock that is held goes on, and can be released.
        released(guard).await;
        raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, None).await.unwrap();
        let findings = client.check().answered().await;
        assert!(findings.iter().all(|finding| finding.level != Level::Bad), "{findings:?}");
        granted(&mut claim(&client, "a", LONG)).await;
    })
}

pub(crate) fn a_user_without_rights_is_told_at_once() -> Result<(), String> {
    run(async {
        let server = Server::start();
        let (_raw, url) = restricted(&server, None).await;
        refusal::is_told(&open(&url).await, "readwrite").await;
    })
}

// Proves: list
/// 10,240 keys take 20 requests.
pub(crate) fn a_list_among_many_keys_has_patience_per_request() -> Result<(), String> {
    const PATIENCE: Duration = Duration::from_millis(500);
    run(async {
        let server = Server::start();
        let mut raw = server.raw().await;
        for hundred in 0..103 {
            let put = |n| TxnOp::put(format!("other/{hundred}/{n}"), "", None);
            raw.txn(Txn::new().and_then((0..100).map(put).collect::<Vec<_>>())).await.unwrap();
        }
        let holder = server.client().await;
        let guard = holder.lock("held").ttl(LONG).build().unwrap().acquire().answered().await;
        let proxy = Proxy::start(&server.0.address()).await.unwrap();
        let far = format!("{}&patience={}ms", server.through(proxy.address()), PATIENCE.as_millis());
        let client = open_as_the_url_says(&far).await;
        let delay = Duration::from_millis(60);
        paging::has_a_patience_for_each_request(&client, PATIENCE * 2, &proxy, delay, "keys").await;
        released(guard).await;
    })
}

/// Opens a client without options, which would replace the URL's patience.
async fn open_as_the_url_says(url: &str) -> lock_core::Client {
    lock_etcd::connect(url).answered().await
}
