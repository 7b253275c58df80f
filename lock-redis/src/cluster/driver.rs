//! The driver of a cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Call, Claim, Context, Driver, Finding, Inspection, Opening, Request, Revocation, Revoked,
};
use lock_core::{Error, Info, Name, Result};
use redis::ConnectionInfo;

use super::claim::ClusterClaim;
use super::members::Members;
use crate::check;
use crate::driver::RedisDriver;
use crate::errors::Redirect;
use crate::server::Server;
use crate::settings::Redis;

/// The driver of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterDriver {
    members: Arc<Members>,
    /// The first member that the user named: it is asked if nothing is known yet.
    first: Arc<Server>,
}

impl ClusterDriver {
    pub(crate) async fn open(
        redis: Redis,
        named: Vec<ConnectionInfo>,
        context: Context,
    ) -> Result<ClusterDriver> {
        let (opening, patience, clock) = (redis.common.opening, context.patience, context.clock.clone());
        let members = Arc::new(Members::new(redis, &named, context)?);
        if opening == Opening::Waits {
            let call = &Call::begin(&clock, patience);
            members.read_slots(call).await?;
            members.check_acknowledgements(call).await?;
        }
        let first = members.first()?;
        Ok(ClusterDriver { members, first })
    }

    fn call(&self, patience: Duration) -> Call {
        Call::begin(&self.members.context().clock, patience)
    }

    fn server_of(&self, name: &Name) -> Arc<Server> {
        self.members.server_of(name).unwrap_or_else(|_| self.first.clone())
    }

    /// Returns the member for another try of a request about this name, if the error leads to one. Nothing was done.
    fn redirected(&self, error: Error) -> Result<Arc<Server>> {
        match Redirect::of(&error) {
            Some(redirect) => self.members.redirected(&redirect),
            None => {
                if error.is_transient() {
                    self.members.read_slots_in_background();
                }
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Driver for ClusterDriver {
    fn info(&self) -> Arc<Info> {
        self.members.profile.get()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let home = self.server_of(&request.name);
        Box::new(ClusterClaim::new(self.members.clone(), home, request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = self.call(patience);
        match RedisDriver::of(self.server_of(name)).inspect(name, patience).await {
            Err(error) => RedisDriver::of(self.redirected(error)?).inspect(name, call.left()).await,
            shown => shown,
        }
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let (call, mut again) = (self.call(revocation.patience), revocation.clone());
        match RedisDriver::of(self.server_of(name)).revoke(name, revocation).await {
            Err(error) => {
                let server = self.redirected(error)?;
                again.patience = call.left();
                RedisDriver::of(server).revoke(name, again).await
            }
            revoked => revoked,
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let call = self.call(patience);
        self.members.read_slots(&call).await?;
        let name = check::unused_name(&self.members.context().random);
        let member = self.server_of(&name);
        let mut findings = vec![self.members.finding()];
        findings.extend(check::check_by(&member, &name, call.left()).await?);
        Ok(findings)
    }
}
