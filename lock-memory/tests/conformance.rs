//! Runs the conformance suite on the three families of memory.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, ClockedServer, Count, Forget, Identity, OwnServer, OwnServers, Promise, Residue, Rises,
    ServerClocks, ToldTime,
};
use lock_conformance::{Abilities, Counters, Data, Facts, Harness, Missing, Step, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_memory::{Memory, ServerClock, ServerTime};

fn main() -> Verdict {
    let lease = InProcess::new("memory, lease family", Memory::with_clock, OF_LEASES);
    let queue = InProcess::new("memory, queue family", Memory::queue_with_clock, OF_QUEUES);
    let register = InProcess::new("memory, register family", Memory::register_with_clock, OF_REGISTERS);
    lock_conformance::run(lease).and(lock_conformance::run(queue)).and(lock_conformance::run(register))
}

/// docs/semantics.md has the hour: how far the clock may be set back.
const OF_LEASES: Promise = Promise {
    lease: Lease::Lock,
    fair: Fair::No,
    rises: Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) },
    identity: Identity::Told,
};

const OF_QUEUES: Promise =
    Promise { lease: Lease::Session, fair: Fair::PerProcess, rises: Rises::Always, identity: Identity::Told };

/// Values are kept for 48 hours, twice as long as the clock may be set back.
const OF_REGISTERS: Promise = Promise {
    lease: Lease::Lock,
    fair: Fair::No,
    rises: Rises::WhileDataIsKept { clock_step: Duration::from_secs(24 * 3600) },
    identity: Identity::Told,
};

#[derive(Debug)]
struct InProcess {
    family: &'static str,
    open: fn(ServerClock) -> Memory,
    promise: Promise,
    server: Memory,
    clock: ServerClock,
}

impl InProcess {
    fn new(family: &'static str, open: fn(ServerClock) -> Memory, promise: Promise) -> InProcess {
        let clock = ServerClock::system();
        InProcess { family, open, promise, server: open(clock.clone()), clock }
    }

    fn own(&self) -> Own {
        let clock = ServerClock::system();
        Own { server: (self.open)(clock.clone()), clock }
    }
}

#[async_trait]
impl Harness for InProcess {
    fn name(&self) -> String {
        self.family.to_owned()
    }

    async fn open(&self, options: Options) -> Result<Client> {
        self.server.client_with(options).await
    }

    fn facts(&self) -> Facts {
        let told_time = match self.promise.lease {
            Lease::Lock => Ok(ToldTime),
            _ => Err(Missing::because("a lease belongs to a session, which ends with its process")),
        };
        Facts { told_time, ..Facts::promising([self.promise]) }
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities {
            forget: Ok(self.clone()),
            count: Ok(self.clone()),
            residue: Ok(self.clone()),
            age: Ok(self.clone()),
            servers: Ok(self.clone()),
            clocks: Ok(self),
            ..Abilities::none("a server in this process: no way to")
        }
    }
}

#[async_trait]
impl Forget for InProcess {
    async fn forget(&self, name: &Name) {
        self.server.expire(name.as_str());
    }
}

#[async_trait]
impl Count for InProcess {
    async fn counters(&self) -> Counters {
        let lock_memory::Counters { requests, writes, .. } = self.server.counters();
        Counters { requests, writes }
    }
}

#[async_trait]
impl Residue for InProcess {
    async fn residue(&self) -> u64 {
        self.server.counters().kept
    }
}

#[async_trait]
impl Age for InProcess {
    async fn kept(&self) -> u64 {
        let lock_memory::Counters { kept, tokens, .. } = self.server.counters();
        kept + tokens
    }

    async fn age(&self, by: Duration) {
        self.clock.set(self.clock.now() + by);
    }
}

#[async_trait]
impl OwnServers for InProcess {
    async fn start(&self) -> Box<dyn OwnServer> {
        Box::new(self.own())
    }
}

#[async_trait]
impl ServerClocks for InProcess {
    async fn start(&self) -> Box<dyn ClockedServer> {
        Box::new(self.own())
    }
}

#[derive(Debug)]
struct Own {
    server: Memory,
    clock: ServerClock,
}

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        self.server.client_with(options).await
    }

    fn pause(&mut self) {
        self.server.disconnect();
    }

    fn resume(&mut self) {
        self.server.reconnect();
    }

    fn kill(&mut self) {
        self.server.disconnect();
    }

    fn start(&mut self, data: Data) {
        if data == Data::Lost {
            self.server.wipe();
        }
        self.server.reconnect();
    }
}

impl ClockedServer for Own {
    fn step_clock(&mut self, step: Step) {
        let now = self.clock.now();
        self.clock.set(match step {
            Step::Forward(ahead) => now + ahead,
            Step::Back(back) => {
                ServerTime::from_micros(now.since(ServerTime::from_micros(0) + back).as_micros() as u64)
            }
        });
    }
}
