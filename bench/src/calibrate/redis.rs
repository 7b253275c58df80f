//! PING and SET of the crate redis against redis-benchmark.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use lock_core::{Owner, Random};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ConnectionAddr};
use tokio::process::Command;

use crate::Outcome;
use crate::args::Calibrate;
use crate::raw::redis::{self as raw, Server};
use crate::report::Row;
use crate::tally::{By, Slice, Tally};

/// How long one slice lasts: redis-benchmark has to start first.
const SLICE: Duration = Duration::from_millis(500);
/// The key that `redis-benchmark -t set` writes, with a value of three bytes.
const ITS_KEY: &str = "key:__rand_int__";

pub(crate) async fn run(options: Calibrate) -> Outcome<()> {
    let server = Server::at(&options.on)?;
    let mut connection = server.connect().await?;
    let peer = RedisBenchmark::of(&server, &mut connection).await?;
    let format = options.run.format();
    format.head();
    let key = format!("lock-bench:{}", Owner::mint(&Random::system()));
    let mut set = redis::cmd("SET");
    set.arg(&key).arg("xxx");
    let tests = [
        Test { name: "ping", its_name: "ping_mbulk", command: redis::cmd("PING") },
        Test { name: "set", its_name: "set", command: set },
    ];
    let rounds = (options.run.length().as_secs_f64() / (4.0 * SLICE.as_secs_f64())).ceil() as usize;
    for test in tests {
        let [driver, its] = test.measure(&connection, peer.as_ref(), rounds).await?;
        let row = |subject, tally, ratio| Row { ratio, ..Row::of("redis", "driver", subject, tally) };
        format.row(&row(test.name, &driver, driver.ratio(&its, By::Rate)));
        if peer.is_some() {
            format.row(&row(&format!("redis-benchmark {}", test.name), &its, None));
        }
    }
    raw::send(&mut connection, redis::cmd("DEL").arg(&key)).await?;
    match peer {
        Some(peer) => peer.clean_up(&mut connection).await,
        None => Ok(()),
    }
}

/// One command, of the driver and of redis-benchmark.
struct Test {
    name: &'static str,
    its_name: &'static str,
    command: Cmd,
}

impl Test {
    /// Returns the results of the driver, and of redis-benchmark.
    async fn measure(
        &self,
        connection: &MultiplexedConnection,
        peer: Option<&RedisBenchmark>,
        rounds: usize,
    ) -> Outcome<[Tally; 2]> {
        let mut tallies = [Tally::default(), Tally::default()];
        // The first is the warm-up.
        let mut rate = self.slice(connection).await?.rate;
        for _ in 0..rounds {
            if let Some(peer) = peer {
                let requests = (rate * SLICE.as_secs_f64()) as u64;
                tallies[1].add(peer.run(self.its_name, requests.max(1)).await?);
            }
            let slice = self.slice(connection).await?;
            rate = slice.rate;
            tallies[0].add(slice);
        }
        Ok(tallies)
    }

    /// Measures one slice: one task, one request after the other.
    async fn slice(&self, connection: &MultiplexedConnection) -> Outcome<Slice> {
        let (mut connection, command) = (connection.clone(), self.command.clone());
        let slice = tokio::spawn(async move {
            let (mut slice, start) = (Slice::default(), Instant::now());
            let mut began = start;
            while began - start < SLICE {
                raw::send(&mut connection, &command).await?;
                let done = Instant::now();
                slice.record(done - began);
                began = done;
            }
            slice.rate = slice.latencies.len() as f64 / (began - start).as_secs_f64();
            Outcome::Ok(slice)
        });
        slice.await?
    }
}

/// The program redis-benchmark, and the server's address as it takes it.
struct RedisBenchmark {
    host: String,
    port: u16,
    /// Whether the key that it writes did not exist before, and may be deleted afterwards.
    key_is_ours: bool,
}

impl RedisBenchmark {
    /// Returns `None` and prints the reason if redis-benchmark can't be run here.
    async fn of(server: &Server, connection: &mut MultiplexedConnection) -> Outcome<Option<RedisBenchmark>> {
        let ConnectionAddr::Tcp(host, port) = server.info().addr() else {
            eprintln!("redis-benchmark: not run, it is compared over plain TCP only");
            return Ok(None);
        };
        if server.info().redis_settings().password().is_some() {
            eprintln!("redis-benchmark: not run, it would show the password in the list of processes");
            return Ok(None);
        }
        match Command::new("redis-benchmark").arg("--version").output().await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                eprintln!("redis-benchmark: not run, it is not on the PATH");
                return Ok(None);
            }
            other => other?,
        };
        let exists: bool = redis::cmd("EXISTS").arg(ITS_KEY).query_async(connection).await?;
        Ok(Some(RedisBenchmark { host: host.clone(), port: *port, key_is_ours: !exists }))
    }

    async fn run(&self, test: &str, requests: u64) -> Outcome<Slice> {
        let output = Command::new("redis-benchmark")
            .args(["-h", &self.host, "-p", &self.port.to_string(), "-c", "1", "-t", test, "--csv"])
            .args(["-n", &requests.to_string()])
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout);
        parse(&said).ok_or_else(|| format!("redis-benchmark printed {said:?}").into())
    }

    async fn clean_up(&self, connection: &mut MultiplexedConnection) -> Outcome<()> {
        if self.key_is_ours {
            raw::send(connection, redis::cmd("DEL").arg(ITS_KEY)).await?;
        }
        Ok(())
    }
}

/// Reads the rate from the output: a head `"test","rps","avg_latency_ms",…`, then the figures. Only the rate is
/// compared, because the latencies are rounded.
fn parse(csv: &str) -> Option<Slice> {
    let fields =
        |line: &str| line.split(',').map(|field| field.trim_matches('"').to_owned()).collect::<Vec<_>>();
    let (head, figures) = csv.trim_end().rsplit_once('\n')?;
    let (head, figures) = (fields(head.lines().last()?), fields(figures));
    let figure = |name: &str| figures.get(head.iter().position(|h| h == name)?)?.parse::<f64>().ok();
    Some(Slice { rate: figure("rps")?, ..Slice::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_benchmarks_figures_are_found() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"25000.00\",\"0.039\"\n";
        assert_eq!(parse(csv).map(|slice| slice.rate), Some(25000.0));
        assert!(parse("Could not connect").is_none());
        assert!(parse("\"test\"\n\"SET\"").is_none());
    }
}
