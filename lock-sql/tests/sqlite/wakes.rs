//! A release wakes the waiters of this process, whichever client they belong to.

use std::time::Duration;

use lock_conformance::timing::within;
use lock_core::driver::{Attempt, Release, Wakes};
use lock_core::{Name, Options};
use lock_sql::sqlite::Sqlite;

use super::{File, claim, granted, run};

const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn a_release_wakes_another_clients_waiters_in_this_process() {
    run(async {
        let file = File::new();
        let (client, other) = (file.client().await, file.client().await);
        assert_eq!(client.info().wakes, Wakes::Polled, "releases of other processes are found by looking");
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        let mut waiter = claim(&other, "a", PATIENCE);
        waiter.listen().await.unwrap();
        assert!(matches!(waiter.attempt().await.unwrap(), Attempt::Busy(_)));
        let no_news = tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await;
        assert!(no_news.is_err(), "nothing was released");
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });
        within("woken", Duration::from_secs(1), waiter.changed()).await;
        granted(&mut waiter).await;
        let mut another = claim(&other, "b", PATIENCE);
        another.listen().await.unwrap();
        assert_eq!(
            waiter.release().await.unwrap(),
            Release::Released { others: None },
            "it is not known for which lock"
        );
        drop(another);
        granted(&mut waiter).await;
        assert_eq!(waiter.release().await.unwrap(), Release::Released { others: Some(false) });
    });
}

pub(crate) fn only_the_waiters_of_that_lock_are_woken() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let prefixed =
            Sqlite::from(file.options()).prefix("p:").unwrap().open(Options::default()).await.unwrap();
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        let (mut another, mut elsewhere) = (claim(&client, "b", PATIENCE), claim(&prefixed, "a", PATIENCE));
        another.listen().await.unwrap();
        elsewhere.listen().await.unwrap();
        holder.release().await.unwrap();
        for waiter in [&mut another, &mut elsewhere] {
            assert!(tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_err());
        }
    });
}

pub(crate) fn a_lock_broken_now_wakes_its_waiters() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        granted(&mut claim(&client, "a", PATIENCE)).await;
        let mut waiter = claim(&client, "a", PATIENCE);
        waiter.listen().await.unwrap();
        let lock = client.lock(Name::new("a").unwrap().as_str()).build().unwrap();
        let holder = lock.inspect().await.unwrap().holder.unwrap();
        lock.revoke(&holder.owner, lock_core::driver::When::Now).await.unwrap();
        within("woken", Duration::from_secs(1), waiter.changed()).await;
        granted(&mut waiter).await;
    });
}
