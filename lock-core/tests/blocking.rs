//! The calls for threads without async: inside async code, and those that the suite doesn't make.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "life/scripted.rs"]
#[allow(dead_code, unreachable_pub, reason = "this test needs little of it")]
mod scripted;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use lock_core::driver::{Renewal, Revoked, When};
use lock_core::{
    Client, Completion, Effect, Ending, ErrorKind, Event, Guard, Lock, LossReason, MultiLock, Options,
    OwnerBytes, Period, PeriodicLock,
};
use scripted::{Script, busy, client, client_with, granted, held, ms, released, unknown};

const TTL: Duration = ms(3000);

/// A call that waits. It is made once.
type Call<'a> = Box<dyn FnOnce() + 'a>;

/// A client on a thread of its own.
fn opened(script: &Arc<Script>) -> Client {
    opened_with(Options::default().label("the test"), script)
}

fn opened_with(options: Options, script: &Arc<Script>) -> Client {
    lock_core::blocking_open(options, async |options| Ok(client_with(script, options).await)).unwrap()
}

fn calls(script: &Script) -> Vec<String> {
    script.log().into_iter().map(|(_, call)| call).collect()
}

/// Returns the file that the last panic of this thread points to, from now on.
fn watch_panics() -> Arc<Mutex<Option<String>>> {
    let told_of = Arc::new(Mutex::new(None));
    let (tell, this, before) = (told_of.clone(), std::thread::current().id(), take_hook());
    set_hook(Box::new(move |panic| match panic.location() {
        Some(location) if std::thread::current().id() == this => {
            *tell.lock().unwrap() = Some(location.file().to_owned());
        }
        _ => before(panic),
    }));
    told_of
}

fn once(lock: Lock) -> PeriodicLock {
    lock.once_per(Period::every(Duration::from_secs(60)).unwrap()).unwrap()
}

// Proves: blocking-in-async
#[tokio::test]
async fn they_refuse_to_stop_async_code() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    let client = client(&script).await;
    let named = |name: &str| client.lock(name).ttl(TTL).build().unwrap();
    let several = |name: &str| MultiLock::new([named(name)]).unwrap();
    let (guard, gone) = (named("a").acquire().await.unwrap(), named("b").acquire().await.unwrap());
    let (both, both_gone) = (several("c").acquire().await.unwrap(), several("d").acquire().await.unwrap());
    let (lock, several) = (named("e"), several("f"));
    let holder = OwnerBytes::new(*b"theirs");
    script.times.lock().unwrap().push_back((ms(1), Ok(0)));
    let (periodic, done, failed) = (once(named("g")), once(named("h")), once(named("i")));
    let (done, failed) = (done.acquire().await.unwrap(), failed.acquire().await.unwrap());
    let calls: [(&str, Call<'_>); 25] = [
        ("open", Box::new(|| drop(opened(&script)))),
        ("check", Box::new(|| drop(client.blocking_check()))),
        ("list", Box::new(|| drop(client.blocking_list("")))),
        ("init", Box::new(|| drop(client.blocking_init()))),
        ("shutdown", Box::new(|| _ = client.blocking_shutdown(TTL))),
        ("acquire", Box::new(|| drop(lock.blocking_acquire()))),
        ("try_acquire", Box::new(|| drop(lock.blocking_try_acquire()))),
        ("run", Box::new(|| drop(lock.blocking_run(|_| ())))),
        ("try_run", Box::new(|| drop(lock.blocking_try_run(|_| ())))),
        ("inspect", Box::new(|| drop(lock.blocking_inspect()))),
        ("revoke", Box::new(|| drop(lock.blocking_revoke(&holder, When::Now)))),
        ("lost", Box::new(|| _ = guard.blocking_lost(TTL))),
        ("renew", Box::new(|| drop(guard.blocking_renew(TTL)))),
        ("release", Box::new(|| _ = gone.blocking_release())),
        ("acquire several", Box::new(|| drop(several.blocking_acquire()))),
        ("try_acquire several", Box::new(|| drop(several.blocking_try_acquire()))),
        ("run several", Box::new(|| drop(several.blocking_run(|_| ())))),
        ("lost, of several", Box::new(|| _ = both.blocking_lost(TTL))),
        ("renew several", Box::new(|| drop(both.blocking_renew(TTL)))),
        ("release several", Box::new(|| _ = both_gone.blocking_release())),
        ("acquire, once per period", Box::new(|| drop(periodic.blocking_acquire()))),
        ("try_acquire, once per period", Box::new(|| drop(periodic.blocking_try_acquire()))),
        ("try_run, once per period", Box::new(|| drop(periodic.blocking_try_run(|_| Ok::<_, ()>(()))))),
        ("complete", Box::new(|| _ = done.blocking_complete())),
        ("release, once per period", Box::new(|| _ = failed.blocking_release())),
    ];
    let told_of = watch_panics();
    for (what, call) in calls {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err(what);
        // Not inside of the assertion: its panic would wait for this mutex.
        let file = told_of.lock().unwrap().take();
        assert_eq!(file.as_deref(), Some(file!()), "{what}: it points to its caller");
        let said =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        assert!(said.is_some_and(|said| said.contains("runtime")), "{what}: {said:?}");
    }
}

#[test]
fn work_is_done_once_per_period() {
    let script = Script::new([granted(TTL)], [held(TTL)], [released()]);
    script.times.lock().unwrap().push_back((ms(1), Ok(0)));
    let client = opened(&script);
    let lock = once(client.lock("n").ttl(TTL).build().unwrap());
    let asked = |what: &str| calls(&script).iter().filter(|call| call.starts_with(what)).count();
    assert_eq!(lock.blocking_try_run(Guard::check).unwrap().map(|done| done.is_ok()), Some(true));
    assert_eq!((asked("renew"), asked("release")), (1, 0));
    assert_eq!(lock.blocking_try_run(|_| Err::<(), _>("failed")).unwrap(), Some(Err("failed")));
    assert_eq!((asked("renew"), asked("release")), (1, 1));
    assert_eq!(lock.blocking_acquire().unwrap().blocking_complete(), Completion::Kept);
    assert_eq!(lock.blocking_try_acquire().unwrap().unwrap().blocking_release(), Ending::Released);
    assert_eq!((asked("renew"), asked("release")), (2, 2));
    *script.attempts.lock().unwrap() = [busy()].into();
    assert_eq!(lock.blocking_try_run(|_| Ok::<_, ()>(())).unwrap(), None);
}

#[test]
fn a_revoke_is_the_servers() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let answers = [(ms(1), Ok(Revoked::FreeIn(ms(700)))), (ms(1), Ok(Revoked::Free)), unknown(ms(1))];
    script.revokes.lock().unwrap().extend(answers);
    let client = opened(&script);
    let lock = client.lock("n").ttl(TTL).build().unwrap();
    let holder = OwnerBytes::new(*b"theirs");
    assert_eq!(lock.blocking_revoke(&holder, When::HoldersDeadline).unwrap(), Revoked::FreeIn(ms(700)));
    assert_eq!(lock.blocking_revoke(&holder, When::Now).unwrap(), Revoked::Free);
    let error = lock.blocking_revoke(&holder, When::Now).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown });
    assert!(error.to_string().starts_with("revoke \"n\" on scripted: "), "{error}");
    let now = "revoke n from theirs Now as the test within 1s";
    assert_eq!(calls(&script), ["revoke n from theirs HoldersDeadline as the test within 1s", now, now]);
}

#[test]
fn an_init_tells_what_the_server_was_given() {
    let script = Script::new([busy()], [held(TTL)], [released()]);
    let client = opened(&script);
    assert_eq!(client.blocking_init().unwrap(), "", "there is nothing to do");
    script.inits.lock().unwrap().extend([(ms(1), Ok("a table".to_owned())), unknown(ms(1))]);
    assert_eq!(client.blocking_init().unwrap(), "a table");
    let error = client.blocking_init().unwrap_err();
    assert!(error.to_string().starts_with("init on scripted: "), "{error}");
    assert_eq!(calls(&script), ["init within 5s", "init within 5s"]);
}

#[test]
fn a_shutdown_awaits_holders_and_refuses_waiters() {
    let script = Script::new([granted(TTL), busy()], [held(TTL)], [(ms(50), released().1)]);
    let (asked, asks) = mpsc::channel();
    let options = Options::default().observer(move |event| {
        if matches!(event, Event::Asked { .. }) {
            asked.send(()).unwrap();
        }
    });
    let client = opened_with(options, &script);
    let lock = client.lock("n").ttl(TTL).build().unwrap();
    let guard = lock.blocking_acquire().unwrap();
    let waiter = std::thread::spawn({
        let lock = lock.clone();
        move || lock.blocking_acquire()
    });
    asks.iter().take(2).for_each(drop);
    // A limit above zero, because the waiter has to be turned away.
    assert_eq!(client.blocking_shutdown(ms(20)), 1, "one lock is held");
    let turned_away = waiter.join().unwrap().unwrap_err();
    assert_eq!(turned_away.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{turned_away}");
    guard.check().expect("a held lock is not taken away");
    assert!(script.times_of("release").is_empty());
    let releasing = std::thread::spawn(move || guard.blocking_release());
    assert_eq!(client.blocking_shutdown(TTL), 0, "the shutdown has waited for the release");
    assert_eq!(script.times_of("release").len(), 1);
    assert_eq!(releasing.join().unwrap(), Ending::Released);
    assert_eq!(
        lock.blocking_acquire().unwrap_err().kind(),
        ErrorKind::Unavailable { effect: Effect::NotApplied }
    );
}

#[test]
fn the_loss_of_one_lock_names_it() {
    let kept = Script::new([granted(TTL)], [held(TTL * 2)], [released()]);
    let lost = Script::new([granted(TTL)], [held(TTL * 2)], [released()]);
    let (a, b) = (opened(&kept), opened(&lost));
    let locks = [a.lock("a"), b.lock("b")].map(|lock| lock.ttl(TTL * 2).build().unwrap());
    let guard = MultiLock::new(locks).unwrap().blocking_acquire().unwrap();
    let least = guard.blocking_renew(TTL * 2).unwrap();
    assert!(least > TTL && guard.guards().iter().all(|guard| guard.valid_for() > TTL), "{least:?}");
    assert_eq!(guard.blocking_lost(ms(10)), None);
    lost.renewals.lock().unwrap().push_front((ms(1), Ok(Renewal::Lost(LossReason::Gone))));
    guard.blocking_renew(TTL * 2).unwrap_err();
    let told = guard.blocking_lost(TTL).map(|(name, cause)| (name.as_str(), cause));
    assert_eq!(told, Some(("b", LossReason::Gone)));
    assert_eq!(guard.blocking_release(), Ending::Expired);
}
