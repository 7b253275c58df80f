//! `server-cpu`: how much CPU time a server uses for the cycles of another measurement.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_test_servers::Owned;

use crate::Outcome;
use crate::cpu;
use crate::rounds::Measurement;
use crate::tally::Slice;

/// A measurement, with the CPU time of its servers.
pub(crate) struct Metered {
    inner: Box<dyn Measurement>,
    servers: Arc<Vec<Owned>>,
}

impl Metered {
    pub(crate) fn new(inner: Box<dyn Measurement>, servers: Arc<Vec<Owned>>) -> Metered {
        Metered { inner, servers }
    }

    fn used(&self) -> Outcome<Duration> {
        let processes: Vec<u32> = self.servers.iter().filter_map(Owned::process_id).collect();
        Ok(cpu::used_by(&processes)
            .ok_or("the system doesn't tell the CPU time of the server's processes")?)
    }
}

#[async_trait]
impl Measurement for Metered {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let before = self.used()?;
        let mut slice = self.inner.run(length).await?;
        let used = self.used()?.saturating_sub(before);
        if !slice.latencies.is_empty() {
            let thousands = slice.latencies.len() as f64 / 1e3;
            slice.extra.push(("cpu_s_per_1000", used.as_secs_f64() / thousands));
        }
        Ok(slice)
    }

    async fn end(self: Box<Self>) -> Outcome<()> {
        self.inner.end().await
    }
}
