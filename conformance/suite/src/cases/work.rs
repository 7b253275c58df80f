//! Work that runs under a lock: it is dropped, once, when the lock is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::{ErrorKind, Name, Result};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::Forget;
use crate::setting::{Contend, Setting};
use crate::timing::{Returned, within};

pub(crate) const CASES: &[Case] = &[
    case!(run_drops_its_work_when_the_lock_goes, "run", [B11, B20]),
    case!(try_run_drops_its_work_when_the_lock_goes, "run", [B11, B20]),
];

/// The beginning and the drops of work that never ends by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Endless {
    begun: Arc<Notify>,
    dropped: Arc<AtomicU64>,
}

impl Endless {
    pub(super) fn work(&self) -> impl Future<Output = ()> + Send + use<> {
        struct Dropped(Arc<AtomicU64>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (work, begun) = (Dropped(self.dropped.clone()), self.begun.clone());
        async move {
            let _work = work;
            begun.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// Returns how often the work was dropped.
    pub(super) fn drops(&self) -> u64 {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Makes the server forget the holder of `name`, and checks that `running`, which runs the work under that lock,
    /// reports the loss and has dropped the work once.
    pub(super) async fn is_lost_with(
        &self,
        name: &Name,
        admin: &dyn Forget,
        running: JoinHandle<Result<()>>,
    ) {
        self.begun.notified().await;
        admin.forget(name).await;
        let outcome = within("the loss", bounds::EVENTUALLY, running).await.returned();
        assert_eq!(outcome.expect_err("the lock is gone").kind(), ErrorKind::Lost);
        assert_eq!(self.drops(), 1);
    }
}

async fn run_drops_its_work_when_the_lock_goes(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client, endless) = (s.name(), s.client().await, Endless::default());
    let (lock, work) = (s.lock(&client, &name).built(), endless.work());
    let running = tokio::spawn(async move { lock.run(async move |_| work.await).await });
    endless.is_lost_with(&name, &*admin, running).await;
    assert!(s.is_free(&name).await);
}

async fn try_run_drops_its_work_when_the_lock_goes(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client, endless) = (s.name(), s.client().await, Endless::default());
    let (lock, work) = (s.lock(&client, &name).built(), endless.work());
    let running = tokio::spawn(async move {
        lock.try_run(async move |_| work.await).await?.expect("the lock is free");
        Ok(())
    });
    endless.is_lost_with(&name, &*admin, running).await;
    assert!(s.is_free(&name).await);
}
