//! With clock and randomness under control, a run can be repeated exactly.

use std::sync::{Arc, Mutex};

use lock_core::Options;

use crate::scripted::{Script, busy, client_with, granted, held, ms, pass, released, unknown};
use crate::{TTL, acquired};

/// With clock and randomness under control, a run can be repeated exactly.
#[test]
fn same_seed_same_trace() {
    let run = || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let events = Arc::new(Mutex::new(Vec::new()));
            let seen = events.clone();
            let script = Script::new(
                [busy(), unknown(ms(30)), busy(), busy(), granted(TTL)],
                [held(TTL), unknown(ms(40)), held(TTL)],
                [unknown(ms(20)), released()],
            );
            let options =
                Options::default().observer(move |event| seen.lock().unwrap().push(format!("{event:?}")));
            let client = client_with(&script, options).await;
            for _ in 0..3 {
                let guard = acquired(&client).await;
                pass(ms(2500)).await;
                guard.release().await;
            }
            client.shutdown(TTL * 3).await;
            let events = events.lock().unwrap().clone();
            (script.log(), events)
        })
    };
    let (calls, events) = run();
    assert!(calls.len() > 10 && events.len() > 10);
    assert_eq!((calls, events), run());
}
