//! A sleep by a clock.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::timer_queue::{Ended, Sleeper};
use super::{Clock, Instant};

/// A sleep: in the timer queue of a client, or with a timer of its own. It is small, because each held lock has one.
pub(super) struct Sleep<'a> {
    clock: &'a Clock,
    kind: Kind<'a>,
}

enum Kind<'a> {
    InQueue(Sleeper<'a>),
    Alone(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
}

impl<'a> Sleep<'a> {
    /// Sleeps until `at`, in the queue if the clock has one.
    pub(super) fn until(clock: &'a Clock, at: Instant) -> Sleep<'a> {
        match &clock.0.queue {
            Some(queue) => Sleep { clock, kind: Kind::InQueue(queue.sleeper(at)) },
            None => Sleep::alone(clock, clock.sleep_alone(at)),
        }
    }

    pub(super) fn alone(clock: &'a Clock, sleep: impl Future<Output = ()> + Send + 'a) -> Sleep<'a> {
        Sleep { clock, kind: Kind::Alone(Box::pin(sleep)) }
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Sleep { clock, kind } = &mut *self;
        loop {
            match kind {
                Kind::Alone(sleep) => return sleep.as_mut().poll(context),
                Kind::InQueue(sleeper) => match sleeper.poll_at(clock.now(), context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => return Poll::Ready(()),
                    // It sleeps on where it is polled. If that is the runtime that has ended, tokio says so.
                    Poll::Ready(Err(Ended)) => *kind = Kind::Alone(Box::pin(clock.sleep_alone(sleeper.at))),
                },
            }
        }
    }
}
