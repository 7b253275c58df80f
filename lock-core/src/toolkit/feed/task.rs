//! The task of a feed: it opens the connection, subscribes topics, wakes claims, and opens the next connection when one
//! breaks.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::mpsc;

use super::source::{Audience, Missed, Notice, Source, SourceError};
use super::{Confirmed, Listeners, Order, Reply};
use crate::backoff;
use crate::clock::{Clock, Instant};
use crate::driver::Context;
use crate::driver::Wakes;
use crate::human_duration::HumanDuration;
use crate::random::Random;

/// The shortest time for which a topic without listeners stays subscribed, so that a name that is handed over often is
/// not subscribed anew each time. The longest time is twice as much.
pub(super) const IDLE: Duration = Duration::from_secs(1);
/// The time for which a connection is trusted without a sign of life.
pub(super) const CHECK: Duration = Duration::from_secs(5);

/// Serves the orders of one client's claims.
#[derive(Debug)]
pub(super) struct Task<S: Source> {
    source: S,
    clock: Clock,
    random: Random,
    patience: Duration,
    listeners: Listeners,
    confirmed: Confirmed<S::Topic>,
    orders: mpsc::UnboundedReceiver<Order<S::Topic>>,
    /// The topics to subscribe, each with the claims that wait for its confirmation.
    wanted: BTreeMap<S::Topic, Vec<Reply>>,
    /// The number of connections in a row that ended before a topic was confirmed.
    failures: u32,
    /// A connection with confirmed topics broke, and none was confirmed since: what happened meanwhile is unknown.
    /// This belongs to the feed and not to a topic, so that an order for the same topic can't hide it.
    has_gap: bool,
}

/// An open connection, and when it is looked after.
struct Link<S: Source> {
    connection: S::Connection,
    /// The topics without listeners at the last sweep.
    idle: BTreeSet<S::Topic>,
    sweep_at: Instant,
    check_at: Instant,
}

/// The feed was dropped, so no claim can order or listen any more.
struct FeedDropped;

/// Why the task leaves a connection.
enum Ended {
    FeedDropped,
    Broken(SourceError),
}

impl From<FeedDropped> for Ended {
    fn from(_: FeedDropped) -> Ended {
        Ended::FeedDropped
    }
}

impl From<SourceError> for Ended {
    fn from(error: SourceError) -> Ended {
        Ended::Broken(error)
    }
}

impl<S: Source> Task<S> {
    pub(super) fn new(
        source: S,
        context: Context,
        listeners: Listeners,
        confirmed: Confirmed<S::Topic>,
        orders: mpsc::UnboundedReceiver<Order<S::Topic>>,
    ) -> Task<S> {
        let Context { clock, random, patience } = context;
        let wanted = BTreeMap::new();
        Task {
            source,
            clock,
            random,
            patience,
            listeners,
            confirmed,
            orders,
            wanted,
            failures: 0,
            has_gap: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            if self.wanted.is_empty() {
                let Some(order) = self.orders.recv().await else { return };
                self.add(order);
            }
            let Err(Ended::Broken(error)) = self.serve().await else { return };
            self.report_break(&error);
            if let Err(FeedDropped) = self.rest().await {
                return;
            }
            self.forget_unheard();
        }
    }

    /// Opens a connection, and serves orders and notices on it until it breaks.
    async fn serve(&mut self) -> Result<Infallible, Ended> {
        let connection = self.bounded(self.source.open()).await?;
        let now = self.clock.now();
        let idle = BTreeSet::new();
        let mut link = Link { connection, idle, sweep_at: now + IDLE, check_at: now + CHECK };
        self.subscribe(&mut link).await?;
        loop {
            let has_topics = self.confirmed.with(|topics| !topics.is_empty());
            tokio::select! {
                biased;
                notice = self.source.next(&mut link.connection) => self.hear(&mut link, notice?).await?,
                order = self.orders.recv() => {
                    self.add(order.ok_or(FeedDropped)?);
                    // Commands that came meanwhile are subscribed in the same request.
                    while let Ok(order) = self.orders.try_recv() {
                        self.add(order);
                    }
                    self.subscribe(&mut link).await?;
                }
                () = self.clock.sleep_until(link.sweep_at), if has_topics => self.sweep(&mut link).await?,
                () = self.clock.sleep_until(link.check_at), if has_topics => self.check(&mut link).await?,
            }
        }
    }

    async fn hear(&mut self, link: &mut Link<S>, notice: Notice) -> Result<(), SourceError> {
        let mut heard = Ok(());
        if let Notice::Moved(name) = &notice {
            self.want_again(name);
            // The lock may have come back meanwhile. If not, its waiters learn by their next attempt where it is.
            if !self.wanted.is_empty() {
                heard = self.subscribe(link).await;
                self.has_gap |= heard.is_err();
            }
        }
        self.listeners.wake(&notice);
        heard
    }

    /// Takes back that the topics of this name's waiters are confirmed.
    fn want_again(&mut self, name: &str) {
        let is_ended =
            |topic: &&S::Topic| matches!(S::audience(topic), Audience::Waiters(of) if of.as_str() == name);
        let ended: Vec<S::Topic> = self.confirmed.with(|topics| {
            let ended: Vec<S::Topic> = topics.iter().filter(is_ended).cloned().collect();
            ended.iter().for_each(|topic| _ = topics.remove(topic));
            ended
        });
        for topic in ended {
            self.wanted.entry(topic).or_default();
        }
    }

    /// Subscribes all wanted topics, and answers the claims that wait for them. After a gap, wakes all claims.
    async fn subscribe(&mut self, link: &mut Link<S>) -> Result<(), SourceError> {
        let mut requests: Vec<Vec<S::Topic>> = vec![self.wanted.keys().cloned().collect()];
        while let Some(topics) = requests.pop() {
            match (self.subscribe_to(link, &topics).await, &topics[..]) {
                (Err(SourceError::Refused(why)), [topic]) => {
                    self.source.learned(topic, Wakes::Polled);
                    self.give_up(topic, SourceError::Refused(why));
                }
                (Err(elsewhere @ SourceError::Elsewhere(_)), [topic]) => self.give_up(topic, elsewhere),
                // The server may have refused all of them because of one.
                (Err(SourceError::Refused(_) | SourceError::Elsewhere(_)), _) => {
                    requests.extend(topics.into_iter().map(|topic| vec![topic]));
                }
                (outcome, _) => outcome?,
            }
        }
        if std::mem::take(&mut self.has_gap) {
            self.listeners.wake_all();
        }
        Ok(())
    }

    async fn subscribe_to(&mut self, link: &mut Link<S>, topics: &[S::Topic]) -> Result<(), SourceError> {
        let missed = self.bounded(self.source.subscribe(&mut link.connection, topics)).await?;
        link.check_at = self.clock.now() + CHECK;
        self.failures = 0;
        for topic in topics {
            self.source.learned(topic, Wakes::Pushed);
            self.confirmed.with(|confirmed| confirmed.insert(topic.clone()));
            link.idle.remove(topic);
            answer(self.wanted.remove(topic).unwrap_or_default(), &Ok(()));
        }
        self.wake_if(missed);
        Ok(())
    }

    fn give_up(&mut self, topic: &S::Topic, why: SourceError) {
        let was_confirmed = self.confirmed.with(|confirmed| confirmed.remove(topic));
        answer(self.wanted.remove(topic).unwrap_or_default(), &Err(why));
        if was_confirmed {
            self.listeners.wake_all();
        }
    }

    /// Unsubscribes the topics that had no listeners at two sweeps in a row.
    async fn sweep(&mut self, link: &mut Link<S>) -> Result<(), SourceError> {
        link.sweep_at = self.clock.now() + IDLE;
        let unheard = |topic: &S::Topic| !self.listeners.has(S::audience(topic));
        let leaving: Vec<S::Topic> = self.confirmed.with(|topics| {
            // A claim registers as a listener first, and then looks under this lock whether its topic is confirmed. So
            // no topic is removed under a claim that relies on it.
            let idle: BTreeSet<S::Topic> = topics.iter().filter(|topic| unheard(topic)).cloned().collect();
            let before = std::mem::replace(&mut link.idle, idle);
            let leaving: Vec<S::Topic> = link.idle.intersection(&before).cloned().collect();
            leaving.iter().for_each(|topic| _ = topics.remove(topic));
            leaving
        });
        match leaving.is_empty() {
            true => Ok(()),
            false => self.bounded(self.source.unsubscribe(&mut link.connection, &leaving)).await,
        }
    }

    async fn check(&mut self, link: &mut Link<S>) -> Result<(), SourceError> {
        let missed = self.bounded(self.source.check(&mut link.connection)).await?;
        link.check_at = self.clock.now() + CHECK;
        self.wake_if(missed);
        Ok(())
    }

    fn wake_if(&self, missed: Missed) {
        if missed == Missed::Possibly {
            self.listeners.wake_all();
        }
    }

    /// Answers the claims that wait for a confirmation, and wakes those that relied on this connection: nothing is
    /// reported to them from now on.
    fn report_break(&mut self, error: &SourceError) {
        let lost = self.confirmed.with(std::mem::take);
        for replies in self.wanted.values_mut() {
            answer(std::mem::take(replies), &Err(error.clone()));
        }
        if lost.is_empty() {
            return;
        }
        for topic in lost {
            self.wanted.entry(topic).or_default();
        }
        self.has_gap = true;
        self.listeners.wake_all();
    }

    /// Waits before the next connection, and takes orders meanwhile.
    async fn rest(&mut self) -> Result<(), FeedDropped> {
        let until = self.clock.now() + backoff::before_connecting(self.failures, &self.random);
        self.failures = self.failures.saturating_add(1);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => self.add(order.ok_or(FeedDropped)?),
                () = self.clock.sleep_until(until) => return Ok(()),
            }
        }
    }

    /// Forgets the topics that no claim listens to or waits for.
    fn forget_unheard(&mut self) {
        let listeners = &self.listeners;
        self.wanted.retain(|topic, replies| {
            replies.iter().any(|reply| !reply.is_closed()) || listeners.has(S::audience(topic))
        });
    }

    fn add(&mut self, order: Order<S::Topic>) {
        self.wanted.entry(order.topic).or_default().push(order.reply);
    }

    async fn bounded<T>(&self, step: impl Future<Output = Result<T, SourceError>>) -> Result<T, SourceError> {
        let silent = || {
            let patience = HumanDuration(self.patience);
            SourceError::Broken(format!("no answer to the connection for wake-ups within {patience}"))
        };
        self.clock.timeout(self.patience, step).await.unwrap_or_else(|| Err(silent()))
    }
}

fn answer(replies: Vec<Reply>, outcome: &Result<(), SourceError>) {
    for reply in replies {
        // The claim may have stopped waiting for the answer.
        let _: Result<(), _> = reply.send(outcome.clone());
    }
}
