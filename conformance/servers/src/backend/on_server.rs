//! The harness of a backend on a server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, ClockedServer, Count, Durable, Forget, IdleConnection, Interrupt, KeepBusy, LockProgram, OneTrip,
    OwnServer, OwnServers, Processes, Promise, Replays, Residue, ServerClocks, ThroughProxy, ToldTime,
};
use lock_conformance::{Ability, Harness, Missing};
use lock_core::{Client, Options, Result};

use super::own::{Network, Own};
use super::{AdminAbilities, Backend};
use crate::clock;
use crate::holder::Program;
use crate::server::Server;
use crate::settings::{Clock, Persistence, Settings};
use crate::this_program::ThisProgram;

/// A backend, and the server that all cases share.
#[derive(Debug)]
pub(super) struct OnServer<B> {
    backend: Arc<B>,
    server: Server,
    admin: AdminAbilities,
}

#[async_trait]
impl<B: Backend> Harness for OnServer<B> {
    fn name(&self) -> String {
        self.backend.name(&self.server)
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.backend.open(self.server.url(), options).await
    }

    fn ttl(&self) -> Duration {
        self.backend.ttl()
    }

    fn proven_at_once(&self) -> usize {
        self.backend.proven_at_once()
    }

    fn opens_in_forks(&self) -> bool {
        self.backend.opens_in_forks()
    }

    fn promised(&self) -> Vec<Promise> {
        self.backend.promised()
    }

    fn server_ended(&self) -> Option<String> {
        self.server.ended()
    }

    fn missing(&self, what: &str) -> Missing {
        let server = match self.server {
            Server::Contained(_) => "runs in a container",
            _ => "was not started here",
        };
        Missing::because(format!("the server {server}: the suite does not {what}"))
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        self.admin.forget.clone()
    }

    fn can_count(self: Arc<Self>) -> Ability<dyn Count> {
        self.admin.count.clone()
    }

    fn can_count_residue(self: Arc<Self>) -> Ability<dyn Residue> {
        self.admin.residue.clone()
    }

    fn can_age(self: Arc<Self>) -> Ability<dyn Age> {
        self.admin.age.clone()
    }

    fn can_interrupt(self: Arc<Self>) -> Ability<dyn Interrupt> {
        self.is_ours_to(<dyn Interrupt>::WHAT)?;
        self.admin.interrupt.clone()
    }

    fn can_keep_busy(self: Arc<Self>) -> Ability<dyn KeepBusy> {
        self.admin.keep_busy.clone()
    }

    fn can_use_proxy(self: Arc<Self>) -> Ability<dyn ThroughProxy> {
        Ok(Arc::new(Network::of(&self.backend, self.server.url())?))
    }

    fn replays(&self) -> Result<Replays, Missing> {
        self.backend.replays()
    }

    fn grants_in_one_trip(&self) -> Result<OneTrip, Missing> {
        self.backend.grants_in_one_trip()
    }

    fn tells_its_time(&self) -> Result<ToldTime, Missing> {
        self.backend.tells_its_time()
    }

    fn keeps_idle_connections(&self) -> Result<IdleConnection, Missing> {
        self.backend.keeps_idle_connections()
    }

    fn can_start_servers(self: Arc<Self>) -> Ability<dyn OwnServers> {
        self.is_ours_to(<dyn OwnServers>::WHAT)?;
        Ok(self)
    }

    fn keeps_data(&self) -> Result<Durable, Missing> {
        self.is_ours_to(Durable::WHAT)?;
        Ok(Durable)
    }

    fn can_set_clocks(self: Arc<Self>) -> Ability<dyn ServerClocks> {
        self.is_ours_to(<dyn ServerClocks>::WHAT)?;
        self.backend.ends_leases_by_wall_clock()?;
        clock::can_be_set()?;
        Ok(self)
    }

    fn can_start_processes(self: Arc<Self>) -> Ability<dyn Processes> {
        let mut environment = self.backend.environment();
        environment.push((self.backend.product().listing().variable, self.server.url().to_owned()));
        ThisProgram::again(environment)
    }

    fn can_run_program(self: Arc<Self>) -> Ability<dyn LockProgram> {
        Program::on(self.backend.locks_at(self.server.url()))
    }
}

impl<B: Backend> OnServer<B> {
    pub(super) fn new(backend: B, server: Server) -> OnServer<B> {
        let admin = backend.admin(&server);
        OnServer { backend: Arc::new(backend), server, admin }
    }

    /// Checks that the server was started here, from a program: only then may a case do this to it, or start another.
    fn is_ours_to(&self, what: &str) -> Result<(), Missing> {
        self.server.owned().map(drop).ok_or_else(|| self.missing(what))
    }
}

#[async_trait]
impl<B: Backend> OwnServers for OnServer<B> {
    async fn start(&self) -> Box<dyn OwnServer> {
        let settings = Settings { persistence: Persistence::EveryWrite, ..Settings::default() };
        Box::new(Own::start(&self.backend, &settings))
    }
}

#[async_trait]
impl<B: Backend> ServerClocks for OnServer<B> {
    async fn start(&self) -> Box<dyn ClockedServer> {
        // This server is never restarted, so what it writes would only cost time.
        let settings = Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() };
        Box::new(Own::start(&self.backend, &settings))
    }
}
