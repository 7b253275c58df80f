//! What the drivers of all schemes have in common.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Claim, Context, Driver, Entry, Fencing, Finding, Info, Inspection, Lease, Level, Release, Request,
    Revocation, Revoked,
};
use lock_core::toolkit::Call;
use lock_core::{Clock, Error, FencingToken, Name, OwnerBytes, Result};

/// How a scheme locks.
#[async_trait]
pub(crate) trait Recipe: fmt::Debug + Send + Sync + 'static {
    /// Starts a claim. Does no I/O.
    fn claim(&self, request: Request) -> Box<dyn Claim>;

    /// Returns the holder, and the waiters if the server knows them.
    async fn inspect(&self, name: &Name, call: &Call) -> Result<Inspection>;
}

/// The driver of a scheme.
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
        self.recipe.claim(request)
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        self.recipe.inspect(name, &Call::begin(&self.clock, patience)).await
    }

    async fn revoke(&self, _: &Name, _: Revocation) -> Result<Revoked> {
        Err(Error::unsupported("this scheme has no way to revoke a lock"))
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.inspect(&Name::new("check")?, patience).await?;
        Ok(vec![Finding::new("reachable", Level::Good, "the server answers")])
    }
}

/// Describes a scheme on the server at `base`, without a token, whose waiters have to look again and again.
pub(crate) fn info(backend: &'static str, base: &str, ttl: RangeInclusive<Duration>) -> Info {
    let server = without_login(base);
    let kept = "there is no token: every holder is given the number 1".to_owned();
    let fencing = Fencing::WhileDataIsKept { clock_step: Duration::ZERO, kept };
    Info::new(backend, server, fencing, Lease::Lock, ttl)
}

/// Returns a URL without the login that it may have.
pub(crate) fn without_login(base: &str) -> &str {
    base.rsplit_once('@').map_or(base, |(_, hosts)| hosts)
}

/// The longest ttl of every scheme.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Returns what every holder is given instead of a token.
pub(crate) fn no_token() -> FencingToken {
    FencingToken::new(1).expect("one is not zero")
}

/// Returns a call of the claim that asks for this.
pub(crate) fn call(request: &Request) -> Call {
    Call::begin(&request.clock, request.patience)
}

/// Shows a holder by what the server stores of it.
pub(crate) fn shown(stored: Option<Vec<u8>>) -> Inspection {
    Inspection::new(stored.map(|stored| Entry::new(OwnerBytes::new(stored))), None)
}

/// Says whether a release has released anything. No scheme knows whether other clients wait.
pub(crate) fn released(anything: bool) -> Release {
    if anything { Release::Released { others: None } } else { Release::NotHeld }
}
