//! Fenced writes, which a resource in Redis does.

use lock_core::FencingToken;
use lock_redis::{FencedWrite, WriteError};

use crate::server::{Server, raw_at, run};

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("not zero")
}

pub(crate) fn a_stale_token_writes_nothing() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let report = FencedWrite::new("report");
        report.set(&mut raw.0, token(33), "a").await.unwrap();
        report.set(&mut raw.0, token(34), "b").await.unwrap();
        report.set(&mut raw.0, token(34), "c").await.unwrap();
        match report.set(&mut raw.0, token(33), "d").await {
            Err(WriteError::Stale(stale)) => {
                assert_eq!((stale.offered, stale.highest), (token(33), token(34)));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(raw.ask::<String>(&["GET", "report"]).await, "c");
        // The highest token never expires: there is no limit on how late a stale holder may write.
        let side = raw.keys().await.pop().unwrap();
        assert!(side.ends_with(":lock~f"), "{side}");
        assert_eq!(raw.ask::<i64>(&["PTTL", &side]).await, -1);
        let _: () = raw.ask(&["SCRIPT", "FLUSH"]).await;
        report.set(&mut raw.0, token(35), "e").await.unwrap();
        assert_eq!(raw.ask::<String>(&["GET", "report"]).await, "e");
    });
}

pub(crate) fn tokens_are_compared_to_their_last_bit() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        // Other backends' tokens may have 64 bits, and a floating-point number has 53. Also, nine is lower than ten
        // although its text is not.
        for (low, high) in [(u64::MAX - 1, u64::MAX), ((1 << 53) + 1, (1 << 53) + 2), (9, 10), (99, 100)] {
            let resource = FencedWrite::new(format!("resource-{low}"));
            resource.set(&mut raw.0, token(low), "low").await.unwrap();
            resource.set(&mut raw.0, token(high), "high").await.unwrap();
            let refused = resource.set(&mut raw.0, token(low), "late").await;
            assert!(
                matches!(refused, Err(WriteError::Stale(stale)) if stale.highest == token(high)),
                "{refused:?}"
            );
        }
    });
}

/// The user may write the value, and not what is beside it.
pub(crate) fn a_value_that_is_refused_leaves_its_token() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let report = FencedWrite::new("report");
        report.set(&mut raw.0, token(33), "a").await.unwrap();
        let side = raw.keys().await.pop().unwrap();
        for (may_write, expected) in [("report", "33"), (side.as_str(), "34")] {
            let rights = format!("(+set ~{may_write})");
            let user = [
                "ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "+eval", "+evalsha", "+get", "+client",
                &rights,
            ];
            let _: () = raw.ask(&user).await;
            let url = format!("redis://u:p@127.0.0.1:{}", server.port());
            report.set(&mut raw_at(&url).await.0, token(34), "b").await.unwrap_err();
            assert_eq!(raw.ask::<String>(&["GET", "report"]).await, "a", "{may_write}");
            assert_eq!(raw.ask::<String>(&["GET", &side]).await, expected, "{may_write}");
        }
        assert!(matches!(report.set(&mut raw.0, token(33), "late").await, Err(WriteError::Stale(_))));
    });
}
