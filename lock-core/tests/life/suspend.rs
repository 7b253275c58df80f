//! A suspend of the machine: the clock has gone on, and the timers have not.

use lock_core::LossReason;

use crate::scripted::{Script, client, granted, held, ms, pass, released};
use crate::{TTL, acquired, lost};

// Proves: suspend
/// The suspend comes at every phase of the watch's rounds.
#[test]
fn a_suspend_is_noticed_in_every_watch_phase() {
    for phase in (0..3000).step_by(30) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let ttl = TTL * 20;
            let script = Script::new([granted(ttl)], [held(ttl)], [released()]);
            let client = client(&script).await;
            let guard = client.lock("n").ttl(ttl).fixed_lease().build().unwrap().acquire().await.unwrap();
            pass(ms(9000 + phase)).await;
            script.jump(ttl);
            let asked = client.clock().now();
            lost(&guard).await;
            let late = client.clock().now().since(asked);
            assert!(late <= ms(1001), "told after {late:?}, {phase} ms into a round");
        });
    }
}

// Proves: suspend
/// At every phase of the watch's rounds, which take a tenth of the shortest ttl in use.
#[tokio::test(start_paused = true)]
async fn a_suspend_is_noticed_within_a_tenth_ttl() {
    for phase in (0..600).step_by(20) {
        let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
        let client = client(&script).await;
        let guard = acquired(&client).await;
        // No renewal is due before that.
        pass(ms(100 + phase)).await;
        script.jump(TTL * 2);
        assert!(!guard.is_held(), "the first call after the suspend is right");
        let asked = client.clock().now();
        assert_eq!(lost(&guard).await, LossReason::Expired);
        let late = client.clock().now().since(asked);
        assert!(late <= TTL / 10 + ms(1), "told after {late:?}, at phase {phase}");
    }
}
