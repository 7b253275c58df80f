//! A claim on a lock whose member may change: the slot is moved to another one, or a replica takes a dead member's place.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Claim, Predecessor, Release, Renewal, Request, Takeover, UnixTime, Watched,
};
use lock_core::toolkit::Call;
use lock_core::{Error, Instant, Result};

use super::members::{Members, Next};
use crate::claim::RedisClaim;
use crate::race::LOOK_AGAIN;
use crate::server::Server;

/// One owner's claim on one lock of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterClaim {
    members: Arc<Members>,
    request: Request,
    claim: RedisClaim,
    /// The member that has the lock, as far as is known.
    home: Arc<Server>,
    hears: Hears,
    /// When the last attempt was answered, the member reported no release to this waiter.
    was_deaf: bool,
    /// The member gave no answer to the last request, or is not the one to ask.
    in_trouble: bool,
    /// When it may be woken for a member in the place of one in trouble: members that disagree would wake it all the time.
    follows_from: Instant,
}

/// The subscriptions of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    Nothing,
    Releases,
    Revokes,
}

/// Sends one request, and again to where the answer leads, within one call: the answer to the core counts from the
/// call's start. A redirected request was not carried out, and each member has its own deadline for it.
macro_rules! redirected {
    ($self:ident, $send:ident($call:ident $(, $argument:expr)*)) => {{
        let mut redirections = 0;
        loop {
            let outcome = $self.claim.$send($call $(, $argument)*).await;
            let Err(error) = outcome else {
                $self.in_trouble = false;
                break outcome;
            };
            redirections += 1;
            if let Err(error) = $self.follow($call, error, redirections).await {
                break Err(error);
            }
        }
    }};
}

impl ClusterClaim {
    pub(crate) fn new(members: Arc<Members>, home: Arc<Server>, request: Request) -> ClusterClaim {
        let claim = RedisClaim::new(home.clone(), request.clone());
        ClusterClaim {
            follows_from: request.clock.now(),
            members,
            request,
            claim,
            home,
            hears: Hears::Nothing,
            was_deaf: false,
            in_trouble: false,
        }
    }

    /// Moves to the member that has the lock by now, as far as the client knows.
    fn go_home(&mut self) {
        if let Ok(home) = self.members.server_of(&self.request.name)
            && !home.is_same(&self.home)
        {
            self.move_to(home);
        }
        self.claim.ask_at(&self.home);
    }

    fn move_to(&mut self, home: Arc<Server>) {
        self.claim.move_to(&home);
        (self.home, self.was_deaf) = (home, false);
    }

    /// Listens anew if the member ended the subscription, and has the slot all the same: it was elsewhere meanwhile. While
    /// a connection is restored, the feed listens again by itself.
    fn notice_silence(&mut self) {
        if self.was_deaf && self.claim.is_deaf() {
            self.claim.stop_listening();
        }
        self.was_deaf = false;
    }

    /// Listens at the present member as it did at the last one. If that fails, the next call tries it again; until then a
    /// look at the end of the lease, or the next renewal, shows what a message would have told.
    async fn hear_again(&mut self, call: &Call) {
        if self.claim.is_listening() {
            return;
        }
        match self.hears {
            Hears::Nothing => {}
            Hears::Releases => drop(self.claim.listen_within(call).await),
            Hears::Revokes => drop(self.claim.watch_within(call).await),
        }
    }

    /// Goes where the error leads. Returns it if it leads nowhere.
    async fn follow(&mut self, call: &Call, error: Error, redirections: u32) -> Result<()> {
        match self.members.follow(error, redirections, self.claim.server(), call).await {
            Ok(Next::Home(server)) => {
                self.move_to(server);
                // A waiter listens before it looks. A holder renews first.
                if self.hears == Hears::Releases {
                    self.hear_again(call).await;
                }
                Ok(())
            }
            Ok(Next::Once(server)) => {
                self.claim.ask_at(&server);
                Ok(())
            }
            Err(error) => {
                self.in_trouble |= error.is_transient();
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Claim for ClusterClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = &self.claim.call();
        self.go_home();
        self.notice_silence();
        self.hear_again(call).await;
        let outcome = redirected!(self, attempt_within(call));
        match &outcome {
            Ok(Attempt::Granted(_)) => self.hears = Hears::Nothing,
            Ok(Attempt::Busy(busy)) if busy.listens => {
                (self.hears, self.was_deaf) = (Hears::Releases, self.claim.is_deaf());
            }
            _ => {}
        }
        outcome
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        let call = &self.claim.call();
        self.go_home();
        redirected!(self, succeed_within(call, predecessor))
    }

    async fn listen(&mut self) -> Result<()> {
        self.claim.listen().await?;
        self.hears = Hears::Releases;
        Ok(())
    }

    /// A member that is dead reports nothing: then this resolves as soon as another one has its place.
    async fn changed(&mut self) {
        let ClusterClaim { members, request, claim, home, in_trouble, follows_from, .. } = self;
        let Request { name, clock, .. } = request;
        let moved = async {
            match in_trouble {
                true => {
                    clock.sleep_until(*follows_from).await;
                    members.until_moved(name, home).await;
                }
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            () = claim.changed() => {}
            () = moved => *follows_from = clock.now() + LOOK_AGAIN,
        }
    }

    async fn watch(&mut self) -> Result<Watched> {
        let watched = self.claim.watch().await?;
        self.hears = Hears::Revokes;
        Ok(watched)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let call = &self.claim.call();
        self.go_home();
        let renewal = redirected!(self, renew_within(call, ttl));
        if matches!(renewal, Ok(Renewal::Held { .. })) {
            self.hear_again(call).await;
        }
        renewal
    }

    async fn release(&mut self) -> Result<Release> {
        let call = &self.claim.call();
        self.go_home();
        self.hears = Hears::Nothing;
        let outcome = redirected!(self, release_within(call));
        if matches!(outcome, Ok(Release::Released { .. })) && !self.claim.server().is_same(&self.home) {
            // The lock was on its way, and its waiters listen where it was.
            self.claim.tell_at(&self.home);
        }
        outcome
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        let call = &self.claim.call();
        self.go_home();
        redirected!(self, server_time_within(call))
    }
}
