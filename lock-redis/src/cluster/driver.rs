//! The driver of a cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Claim, Context, Driver, Finding, Inspection, Request, Revocation, Revoked};
use lock_core::toolkit::{Call, Opening};
use lock_core::{Error, Info, Name, Result};
use redis::ConnectionInfo;

use super::claim::ClusterClaim;
use super::hash_slots::Address;
use super::members::{Members, Next};
use crate::check;
use crate::driver::RedisDriver;
use crate::server::Server;
use crate::settings::Redis;

/// The number of names that a check takes until one is at a member that can be asked.
const TRIED_NAMES: usize = 100;

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

    /// Returns a name that no lock has, and its member: one that is not among these, unless it is hard to find.
    fn unused_name(&self, in_trouble: &[Address]) -> (Name, Arc<Server>) {
        let mint = || {
            let name = check::unused_name(&self.members.context().random);
            let member = self.server_of(&name);
            (name, member)
        };
        let is_of_others = |(_, member): &(Name, Arc<Server>)| !in_trouble.contains(&member.address().into());
        (0..TRIED_NAMES).map(|_| mint()).find(is_of_others).unwrap_or_else(mint)
    }

    /// Returns the member for another try of a request, if the error of this one leads to one. Nothing was done.
    async fn redirected(&self, error: Error, nth: u32, by: &Server, call: &Call) -> Result<Arc<Server>> {
        let (Next::Home(server) | Next::Once(server)) = self.members.follow(error, nth, by, call).await?;
        Ok(server)
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
        let (call, mut server, mut redirections) = (self.call(patience), self.server_of(name), 0);
        loop {
            match RedisDriver::of(server.clone()).inspect(name, call.left()).await {
                Err(error) => {
                    redirections += 1;
                    server = self.redirected(error, redirections, &server, &call).await?;
                }
                shown => return shown,
            }
        }
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let (call, mut server, mut redirections) = (self.call(revocation.patience), self.server_of(name), 0);
        loop {
            let mut asked = revocation.clone();
            asked.patience = call.left();
            match RedisDriver::of(server.clone()).revoke(name, asked).await {
                Err(error) => {
                    redirections += 1;
                    server = self.redirected(error, redirections, &server, &call).await?;
                }
                revoked => return revoked,
            }
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let call = self.call(patience);
        self.members.read_slots(&call).await?;
        let half = Call::begin(call.clock(), call.left() / 2);
        let (finding, in_trouble) = self.members.finding(&half).await;
        let (name, member) = self.unused_name(&in_trouble);
        let mut findings = vec![finding];
        findings.extend(check::check_by(&member, &name, call.left()).await?);
        Ok(findings)
    }
}
