//! Messages that arrive late: after their caller has gone, or after what should have followed them.

use lock_core::driver::Queueing;
use lock_core::{Effect, ErrorKind, Guard, Lock, Name};
use tokio::task::JoinHandle;

use super::{LONG, long, patience, warm_client};
use crate::bounds;
use crate::harness::OneTrip;
use crate::proxy::{Cut, Direction, Proxy};
use crate::setting::{Contend, Net, Setting, granted_within, holder_of, ms, stays_unheld};
use crate::timing::{Answered, Returned, released, until, void, within};

pub(super) async fn an_attempt_that_arrives_after_its_release_takes_nothing(
    s: Setting,
    net: Net,
    _: OneTrip,
) {
    let (proxy, direct) = (net.proxy().await, s.client().await);
    for late in [ms(0), patience(&s) * 2] {
        let name = s.name();
        let client = warm_client(&s, &*net, &proxy).await;
        // Its connection hangs; the connections that it opens instead work.
        let held = proxy.held(Direction::ToServer);
        proxy.hold_open_ones(Direction::ToServer);
        let error = long(&client, &name).built().try_acquire().await.expect_err("no answer came");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        assert!(proxy.held(Direction::ToServer) > held, "the attempt is on its way");
        // The release has been answered by now.
        assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
        tokio::time::sleep(late).await;
        let looking = long(&direct, &name).built();
        assert!(holder_of(&looking).await.is_none());
        proxy.deliver_late(Direction::ToServer).await;
        stays_free(&s, &looking, &format!("{late:?} after its patience it took the lock")).await;
    }
}

/// Looks for one patience, all the time: a grant that is undone at once is a grant, too.
async fn stays_free(s: &Setting, looking: &Lock, otherwise: &str) {
    stays_unheld(looking, patience(s), otherwise).await;
    assert!(s.is_free(looking.name()).await);
}

/// More requests than any attempt or release has.
const MANY: u64 = 6;

/// The request that takes the lock need not be the first one of an attempt, which may be a look. So each request is
/// held up in turn.
pub(super) async fn an_attempt_held_up_between_its_requests_takes_nothing(s: Setting, net: Net) {
    let direct = s.client().await;
    for sent in 1..=MANY {
        let (name, proxy) = (s.name(), net.proxy().await);
        let client = warm_client(&s, &*net, &proxy).await;
        let held = || proxy.held(Direction::ToServer) > 0;
        proxy.hold_open_ones_after(Direction::ToServer, sent);
        let error = match long(&client, &name).built().try_acquire().await {
            // Those were all of its requests. The next one belongs to the release, or to a session.
            Ok(guard) => {
                let release = tokio::spawn(guard.expect("no other claim has this name").release());
                // On several servers an attempt may have needed more requests in the round before.
                until("a request is held", LONG, || async { held() || (sent > 1 && release.is_finished()) })
                    .await;
                proxy.deliver(Direction::ToServer);
                release.await.returned();
                return;
            }
            Err(error) => error,
        };
        assert!(error.is_transient() && held(), "{error:?}");
        // It releases on another connection whatever it has got.
        let looking = long(&direct, &name).built();
        until("it is free", patience(&s) * 2, || async { holder_of(&looking).await.is_none() }).await;
        tokio::time::sleep(patience(&s)).await;
        proxy.deliver_late(Direction::ToServer).await;
        let took = format!("its request {} took the lock after its patience", sent + 1);
        stays_free(&s, &looking, &took).await;
    }
    panic!("an attempt of more than {MANY} requests");
}

/// The connections break while an answer of an attempt is on its way to the client: the first one, the second one, and
/// so on. Whatever the server has done by then, the lock is soon free.
pub(super) async fn an_attempt_cut_off_before_an_answer_leaves_nothing(s: Setting, net: Net) {
    let direct = s.client().await;
    for answered in 0..=MANY {
        let (name, proxy) = (s.name(), net.proxy().await);
        let client = warm_client(&s, &*net, &proxy).await;
        proxy.hold_open_ones_after(Direction::ToClient, answered);
        let lock = long(&client, &name).built();
        let attempt = tokio::spawn(async move { lock.try_acquire().await });
        an_answer_is_held(&proxy, &attempt).await;
        let has_ended = attempt.is_finished();
        if !has_ended {
            proxy.cut(Cut::Reset);
        }
        match attempt.await.returned() {
            Ok(guard) => {
                let guard = guard.expect("no other claim has this name");
                if has_ended {
                    return released_after_all_answers(guard, &proxy, answered).await;
                }
                guard.release().await;
            }
            // On a busy machine its patience may have ended before this task saw that an answer was held.
            Err(error) => {
                assert!(error.is_transient() && proxy.held(Direction::ToClient) > 0, "{error:?}");
            }
        }
        let looking = long(&direct, &name).built();
        until("it is free", bounds::EVENTUALLY, || async { holder_of(&looking).await.is_none() }).await;
    }
    panic!("an attempt of more than {MANY} answers");
}

/// Waits until an answer of this call is held, or it has all of them.
async fn an_answer_is_held<T>(proxy: &Proxy, call: &JoinHandle<T>) {
    let is_over = || async { proxy.held(Direction::ToClient) > 0 || call.is_finished() };
    until("an answer is held, or it has all of them", LONG, is_over).await;
}

/// The next answer belongs to the release, or to a session. On several servers an attempt may have needed more answers in
/// the round before than this one and its release have.
async fn released_after_all_answers(guard: Guard, proxy: &Proxy, answered: u64) {
    let release = tokio::spawn(guard.release());
    an_answer_is_held(proxy, &release).await;
    if answered == 0 && proxy.held(Direction::ToClient) == 0 {
        void("all requests went over a connection that was opened meanwhile");
    }
    proxy.deliver(Direction::ToClient);
    release.await.returned();
}

/// A waiter that is notified before the lock is free would find it held and go back to sleep.
pub(super) async fn a_release_delayed_between_requests_wakes_the_waiter(s: Setting, net: Net) {
    let direct = s.client().await;
    for sent in 1..=MANY {
        let (name, proxy) = (s.name(), net.proxy().await);
        let client = warm_client(&s, &*net, &proxy).await;
        let held = || proxy.held(Direction::ToServer) > 0;
        let guard = long(&client, &name).held().await;
        let waiter = long(&direct, &name).waits();
        tokio::time::sleep(s.ttl()).await;
        proxy.hold_open_ones_after(Direction::ToServer, sent);
        let release = tokio::spawn(guard.release());
        until("it is held up, or done", LONG, || async { held() || release.is_finished() }).await;
        let is_done = release.is_finished();
        if is_done {
            // The proxy has to hold something, otherwise this round has shown nothing.
            let again = long(&client, &s.name()).built();
            let again = tokio::spawn(async move { again.try_acquire().await.map(drop) });
            until("a request is held", LONG, || async { held() }).await;
            again.abort();
        } else {
            // As long as a waiter needs that was notified too early.
            tokio::time::sleep(patience(&s) / 3).await;
        }
        proxy.deliver(Direction::ToServer);
        // A waiter that is not told again looks by itself, but only seconds later.
        let what = format!("the waiter is told after the release's request {}", sent + 1);
        let next = granted_within(&what, ms(1000), waiter).await;
        release.await.returned();
        released(next).await;
        if is_done {
            return;
        }
    }
    panic!("a release of more than {MANY} requests");
}

/// A claim that listens hears of the next release, although nothing of what it has asked the server has arrived yet.
/// Otherwise it does not listen.
pub(super) async fn listening_waits_for_the_server(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let client = warm_client(&s, &*net, &proxy).await;
    let claim = |name: &Name| s.claim(&client, name, s.ttl(), Queueing::Queued);
    let (mut other, mut waiter) = (claim(&s.name()), claim(&name));
    // Opens the connection for wake-ups, where there is one.
    other.listen().answered().await;
    let holder = long(&s.client().await, &name).held().await;
    proxy.hold(Direction::ToServer);
    let listened = waiter.listen().await;
    // The proxy has to hold something, also of a client that hears of all releases already and asks nothing.
    let request = tokio::spawn(async move {
        other.attempt().await?;
        other.release().await
    });
    until("a request is held", LONG, || async { proxy.held(Direction::ToServer) > 0 }).await;
    released(holder).await;
    proxy.deliver(Direction::ToServer);
    if listened.is_ok() {
        within("a claim that listens hears of it", ms(1000), waiter.changed()).await;
    }
    // Its attempt may have been too late.
    drop(request.await.returned());
}
