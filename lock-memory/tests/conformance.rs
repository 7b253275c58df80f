//! Both families of memory under the suite.

use async_trait::async_trait;
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Step, Verdict};
use lock_core::{Client, Name, Options, Result};
use lock_memory::{Memory, ServerClock, ServerTime};

fn main() -> Verdict {
    let lease = InProcess { family: "memory, lease family", open: Memory::with_clock, server: Memory::new() };
    let queue =
        InProcess { family: "memory, queue family", open: Memory::queue_with_clock, server: Memory::queue() };
    lock_conformance::run(lease).and(lock_conformance::run(queue))
}

#[derive(Debug)]
struct InProcess {
    family: &'static str,
    open: fn(ServerClock) -> Memory,
    server: Memory,
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
            | Need::OwnServer
            | Need::Durable
            | Need::ServerClock => Ok(()),

            Need::Interrupt | Need::Process | Need::Program | Need::Proxy => {
                Err(format!("a server in this process: no way to {need}"))
            }
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
