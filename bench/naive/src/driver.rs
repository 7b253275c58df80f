//! The driver of every scheme, and its claim.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Context, Driver, Fencing, Finding, Grant, Info, Inspection, Lease, LossReason,
    Release, Renewal, Request, Revocation, Revoked,
};
use lock_core::toolkit::Call;
use lock_core::{Clock, Error, FencingToken, Name, Result};

/// A scheme locks by these calls.
#[async_trait]
pub(crate) trait Recipe: Clone + fmt::Debug + Send + Sync + 'static {
    /// A claim keeps this between its calls.
    type State: Default + Send;

    async fn attempt(&self, request: &Request, state: &mut Self::State) -> Result<Attempt>;

    async fn listen(&self, _: &Request, _: &mut Self::State) -> Result<()> {
        Ok(())
    }

    async fn changed(_: &mut Self::State) {
        std::future::pending::<()>().await;
    }

    async fn renew(&self, request: &Request, state: &mut Self::State, ttl: Duration) -> Result<Renewal>;

    /// Returns whether anything was released.
    async fn release(&self, request: &Request, state: &mut Self::State) -> Result<bool>;

    /// Returns the holder, and the waiters if the server knows them.
    async fn inspect(&self, _: &Name, _: &Call) -> Result<Inspection> {
        Err(Error::unsupported("this scheme shows no holder"))
    }
}

#[derive(Debug)]
pub(crate) struct SchemeDriver<R> {
    recipe: R,
    info: Arc<Info>,
    clock: Clock,
}

impl<R: Recipe> SchemeDriver<R> {
    pub(crate) fn new(recipe: R, info: Info, context: Context) -> SchemeDriver<R> {
        SchemeDriver { recipe, info: Arc::new(info), clock: context.clock }
    }
}

#[async_trait]
impl<R: Recipe> Driver for SchemeDriver<R> {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(SchemeClaim { recipe: self.recipe.clone(), request, state: R::State::default() })
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        self.recipe.inspect(name, &Call::begin(&self.clock, patience)).await
    }

    async fn revoke(&self, _: &Name, _: Revocation) -> Result<Revoked> {
        Err(Error::unsupported("this scheme has no way to revoke a lock"))
    }

    async fn check(&self, _: Duration) -> Result<Vec<Finding>> {
        Err(Error::unsupported("this scheme has no checks"))
    }
}

struct SchemeClaim<R: Recipe> {
    recipe: R,
    request: Request,
    state: R::State,
}

impl<R: Recipe> fmt::Debug for SchemeClaim<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemeClaim").field("request", &self.request).finish_non_exhaustive()
    }
}

#[async_trait]
impl<R: Recipe> Claim for SchemeClaim<R> {
    async fn attempt(&mut self) -> Result<Attempt> {
        self.recipe.attempt(&self.request, &mut self.state).await
    }

    async fn listen(&mut self) -> Result<()> {
        self.recipe.listen(&self.request, &mut self.state).await
    }

    async fn changed(&mut self) {
        R::changed(&mut self.state).await;
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        self.recipe.renew(&self.request, &mut self.state, ttl).await
    }

    /// No scheme knows whether other clients wait.
    async fn release(&mut self) -> Result<Release> {
        let anything = self.recipe.release(&self.request, &mut self.state).await?;
        Ok(if anything { Release::Released { others: None } } else { Release::NotHeld })
    }
}

/// Describes a scheme on the server at `base`, without a token, whose waiters have to look again and again.
pub(crate) fn info(backend: &'static str, base: &str, ttl: RangeInclusive<Duration>) -> Info {
    let server = without_login(base);
    let kept = "there is no token: every holder is given the number 1".to_owned();
    let fencing = Fencing::WhileDataIsKept { clock_step: Duration::ZERO, kept };
    Info::new(backend, server, fencing, Lease::Lock, ttl)
}

pub(crate) fn without_login(base: &str) -> &str {
    base.rsplit_once('@').map_or(base, |(_, hosts)| hosts)
}

pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Returns a grant. Every holder is given the same number instead of a token.
pub(crate) fn granted(valid_for: Duration) -> Attempt {
    Attempt::Granted(Grant::new(FencingToken::new(1).expect("one is not zero"), valid_for))
}

pub(crate) fn busy() -> Attempt {
    Attempt::Busy(Busy::default())
}

pub(crate) fn held(valid_for: Duration) -> Renewal {
    Renewal::Held { valid_for, age: Duration::ZERO }
}

pub(crate) fn lost() -> Renewal {
    Renewal::Lost(LossReason::Gone)
}

pub(crate) fn call(request: &Request) -> Call {
    Call::begin(&request.clock, request.patience)
}

/// Returns the key or the row of a name in a scheme.
pub(crate) fn key_of(scheme: &str, name: &Name) -> String {
    format!("{scheme}:{}", name.as_str())
}
