//! Redis and Valkey, as the conformance suite uses them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Identity, Promise, Rises, ToldTime};
use lock_conformance::{Abilities, Facts, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Options, Result};
use lock_redis::Layout;
use lock_test_servers::{self as servers, Backend, Product, Server, ServerUrl, run_on_server};

use crate::admin::Admin;

/// Runs the suite on locks that are stored in this way.
pub(crate) fn run(layout: Layout) -> Verdict {
    run_on_server(Redis { layout })
}

#[derive(Debug)]
struct Redis {
    layout: Layout,
}

#[async_trait]
impl Backend for Redis {
    fn product(&self) -> &'static dyn Product {
        &servers::Redis
    }

    fn facts(&self) -> Facts {
        // docs/semantics.md has the hour: how far the clock may be set back.
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let fair = match self.layout {
            Layout::Fair(_) => Fair::PerProcess,
            _ => Fair::No,
        };
        let promise = Promise { lease: Lease::Lock, fair, rises, identity: Identity::Told };
        Facts { told_time: Ok(ToldTime), ..Facts::promising([promise]) }
    }

    fn locks_at(&self, url: &str) -> String {
        let layout = match self.layout {
            Layout::Redisson => "layout=redisson".to_owned(),
            Layout::Fair(grace) => format!("fair=true&grace={}ms", grace.get().as_millis()),
            _ => "layout=own".to_owned(),
        };
        format!("{url}{}{layout}", if url.contains('?') { '&' } else { '?' })
    }

    async fn open(&self, url: &str, options: Options) -> Result<Client> {
        lock_redis::connect_with(&self.locks_at(url), options).await
    }

    fn address(&self, url: &str) -> Result<String, Missing> {
        let is_plain = ["redis://", "valkey://"].iter().any(|scheme| url.starts_with(scheme));
        match ServerUrl::parse(url) {
            Ok(parts) if is_plain => Ok(parts.address(6379)),
            _ => Err(Missing::because("not by TCP without TLS: no proxy can stand in between")),
        }
    }

    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client> {
        let url = ServerUrl::parse(url).expect("it has an address");
        lock_redis::connect_with(&self.locks_at(&url.at(address)), options).await
    }

    fn abilities(&self, server: &Server, abilities: Abilities) -> Abilities {
        let keep_busy =
            Err(Missing::because("the server does one thing at a time: nothing keeps a single key busy"));
        let admin = Arc::new(Admin::of(server.url(), self.layout));
        Abilities { keep_busy, ..abilities.with_admin(&admin) }
    }
}
