//! A sleep by a clock.

use std::pin::Pin;
use std::task::{Context, Poll};

use super::timer_queue;

/// A sleep: in the timer queue of a client, or with a timer of its own. It is small, because each held lock has one.
pub(super) struct Sleep<'a>(Kind<'a>);

enum Kind<'a> {
    InQueue(timer_queue::Sleep<'a>),
    Alone(Pin<Box<dyn Future<Output = ()> + Send + 'a>>),
}

impl<'a> Sleep<'a> {
    pub(super) fn in_queue(sleep: timer_queue::Sleep<'a>) -> Sleep<'a> {
        Sleep(Kind::InQueue(sleep))
    }

    pub(super) fn alone(sleep: impl Future<Output = ()> + Send + 'a) -> Sleep<'a> {
        Sleep(Kind::Alone(Box::pin(sleep)))
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Kind::InQueue(sleep) => Pin::new(sleep).poll(context),
            Kind::Alone(sleep) => sleep.as_mut().poll(context),
        }
    }
}
