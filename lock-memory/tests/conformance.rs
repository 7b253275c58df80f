//! Both families of memory under the suite.

use async_trait::async_trait;
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Verdict};
use lock_core::{Client, Name, Options, Result};
use lock_memory::Memory;

fn main() -> Verdict {
    let lease = InProcess { family: "memory, lease family", open: Memory::new, server: Memory::new() };
    let queue = InProcess { family: "memory, queue family", open: Memory::queue, server: Memory::queue() };
    lock_conformance::run(lease).and(lock_conformance::run(queue))
}

#[derive(Debug)]
struct InProcess {
    family: &'static str,
    open: fn() -> Memory,
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
            Need::Forget | Need::Counters | Need::Residue | Need::OwnServer | Need::Durable => Ok(()),
            Need::Interrupt | Need::Program | Need::Proxy => {
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
        Box::new(Own((self.open)()))
    }
}

#[derive(Debug)]
struct Own(Memory);

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        self.0.client_with(options).await
    }

    fn pause(&mut self) {
        self.0.disconnect();
    }

    fn resume(&mut self) {
        self.0.reconnect();
    }

    fn kill(&mut self) {
        self.0.disconnect();
    }

    fn start(&mut self, data: Data) {
        if data == Data::Lost {
            self.0.wipe();
        }
        self.0.reconnect();
    }
}
