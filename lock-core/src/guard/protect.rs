//! Runs work that is dropped when the lock that it needs is lost.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, ready};

/// Runs `work` until `lost` resolves.
///
/// Calls `held` before every poll of `work`, so that a process that did not run for a while does not resume work that
/// it may no longer do. Calls it again after the end of `work`, so that `Ok` means that the lock was held until then.
pub(crate) async fn protect<T, L>(
    lost: impl Future<Output = L>,
    held: impl Fn() -> Result<(), L>,
    work: impl Future<Output = T>,
) -> Result<T, L> {
    let (mut lost, mut work) = (pin!(lost), pin!(work));
    poll_fn(|context| {
        if let Poll::Ready(loss) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(loss));
        }
        held()?;
        let out = ready!(work.as_mut().poll(context));
        held()?;
        Poll::Ready(Ok(out))
    })
    .await
}
