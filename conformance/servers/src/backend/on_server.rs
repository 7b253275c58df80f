//! The harness of a backend on a server.

use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::harness::{ClockedServer, OwnServer, OwnServers, ServerClocks};
use lock_conformance::{Abilities, Facts, Harness};
use lock_core::{Client, Options, Result};

use super::Backend;
use super::own::{Network, Own};
use crate::clock;
use crate::holder::Program;
use crate::server::Server;
use crate::settings::{Clock, Persistence, Settings};
use crate::source::Source;
use crate::this_program::ThisProgram;

/// A backend, and the server that all cases share.
#[derive(Debug)]
pub(super) struct OnServer<B> {
    backend: Arc<B>,
    server: Server,
}

#[async_trait]
impl<B: Backend> Harness for OnServer<B> {
    fn name(&self) -> String {
        self.backend.name(&self.server)
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.backend.open(self.server.url(), options).await
    }

    fn facts(&self) -> Facts {
        self.backend.facts()
    }

    fn server_ended(&self) -> Option<String> {
        self.server.ended()
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        let none = Abilities::none(match self.server.source() {
            Source::Container { .. } => "the server runs in a container: the suite does not",
            _ => "the server was not started here: the suite does not",
        });
        let (backend, url) = (&self.backend, self.server.url());
        let mut environment = backend.environment();
        environment.push((backend.product().listing().variable, url.to_owned()));
        let shared = Abilities {
            proxy: Network::of(backend, url).map(|network| Arc::new(network) as _),
            processes: ThisProgram::again(environment),
            program: Program::on(backend.locks_at(url)),
            ..none.clone()
        };
        if self.server.owned().is_none() {
            return Abilities { interrupt: none.interrupt, ..backend.abilities(&self.server, shared) };
        }
        let ours = Abilities { servers: Ok(self.clone()), clocks: Ok(self.clone()), ..shared };
        let abilities = backend.abilities(&self.server, ours);
        let clocks = abilities.clocks.and_then(|clocks| Ok(clock::can_be_set().map(|()| clocks)?));
        Abilities { clocks, ..abilities }
    }
}

impl<B: Backend> OnServer<B> {
    pub(super) fn new(backend: B, server: Server) -> OnServer<B> {
        OnServer { backend: Arc::new(backend), server }
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
