//! Runs the conformance suite on both families of memory.

use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Step, Verdict};
use lock_core::{Client, Name, Options, Result};
use lock_memory::{Memory, ServerClock, ServerTime};

fn main() -> Verdict {
    let lease = InProcess::new("memory, lease family", Memory::with_clock);
    let queue = InProcess::new("memory, queue family", Memory::queue_with_clock);
    lock_conformance::run(lease).and(lock_conformance::run(queue))
}

#[derive(Debug)]
struct InProcess {
    family: &'static str,
    open: fn(ServerClock) -> Memory,
    server: Memory,
    clock: ServerClock,
}

impl InProcess {
    fn new(family: &'static str, open: fn(ServerClock) -> Memory) -> InProcess {
        let clock = ServerClock::system();
        InProcess { family, open, server: open(clock.clone()), clock }
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

    fn can(&self, need: Need) -> std::result::Result<(), String> {
        match need {
            Need::Forget
            | Need::Counters
            | Need::Residue
            | Need::Age
            | Need::OwnServer
            | Need::Durable
            | Need::ServerClock => Ok(()),

            Need::Interrupt
            | Need::Process
            | Need::Program
            | Need::OwnProgram
            | Need::Proxy
            | Need::Replay
            | Need::OneTrip
            | Need::IdleConnection => Err(format!("a server in this process: no way to {need}")),
        }
    }

    async fn forget(&self, name: &Name) {
        self.server.expire(name.as_str());
    }

    async fn counters(&self) -> Counters {
        let lock_memory::Counters { requests, writes, .. } = self.server.counters();
        Counters { requests, writes }
    }

    async fn residue(&self) -> u64 {
        self.server.counters().kept
    }

    async fn kept(&self) -> u64 {
        let lock_memory::Counters { kept, tokens, .. } = self.server.counters();
        kept + tokens
    }

    async fn age(&self, by: Duration) {
        self.clock.set(self.clock.now() + by);
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        self.own_server_with_clock().await
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        let clock = ServerClock::system();
        Box::new(Own { server: (self.open)(clock.clone()), clock })
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
