//! Data for the tests of the bars.

use std::collections::BTreeMap;

use super::{BarReport, judge};
use crate::compare::report::{FencingReport, Options, Promises, Ratios, Report, Row, ServerReport, VERSION};
use crate::machine::Machine;
use crate::tally::Tally;

/// The data of a run that never was, on one server.
pub(super) struct Data(Report);

/// Contenders on one name.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    pub(super) contenders: u64,
    pub(super) processes: u64,
    /// Of all contenders together.
    pub(super) grants: u64,
    pub(super) jain: f64,
    pub(super) slowest_share: f64,
    pub(super) requests: Option<f64>,
    /// The rate as a share of the floor's.
    pub(super) ratio: Option<f64>,
}

impl Default for Crowd {
    fn default() -> Crowd {
        Crowd {
            contenders: 8,
            processes: 8,
            grants: 10_000,
            jain: 1.0,
            slowest_share: 1.0,
            requests: None,
            ratio: None,
        }
    }
}

impl Data {
    /// A server of this kind, on which a hand-over costs two requests. It has the kind's name.
    pub(super) fn on(backend: &str, fair: &str, wakes: &str) -> Data {
        let info = Promises {
            address: "a:1".to_owned(),
            lease: "lock".to_owned(),
            fair: fair.to_owned(),
            wakes: wakes.to_owned(),
            fencing: FencingReport { kind: "always".to_owned(), text: "always".to_owned() },
            clock: String::new(),
            data_loss: String::new(),
            min_ttl_ms: 10,
            max_ttl_ms: 1_000,
            requests_per_hand_over: 2,
        };
        let server = ServerReport {
            name: backend.to_owned(),
            product: None,
            backend: backend.to_owned(),
            durable: Some(false),
            info: Some(info),
            not_run: None,
        };
        Data(Report {
            version: VERSION,
            began: "2026-03-01T12:00:00Z".to_owned(),
            ended: None,
            took_s: None,
            complete: false,
            machine: Machine::this(1),
            options: Options { quick: false, on: vec![backend.to_owned()], workloads: Vec::new() },
            servers: vec![server],
            rows: Vec::new(),
            cases: Vec::new(),
            claims: Vec::new(),
            bars: Vec::new(),
            not_run: Vec::new(),
        })
    }

    /// Gives the server another address.
    pub(super) fn at(mut self, address: &str) -> Data {
        for info in self.0.servers.iter_mut().filter_map(|server| server.info.as_mut()) {
            info.address = address.to_owned();
        }
        self
    }

    pub(super) fn crowd(self, crowd: Crowd) -> Data {
        let mut extra = BTreeMap::from([
            ("jain".to_owned(), crowd.jain),
            ("slowest_share".to_owned(), crowd.slowest_share),
        ]);
        extra.extend(crowd.requests.map(|requests| ("requests_per_hand_over".to_owned(), requests)));
        let ratios = crowd.ratio.map(|ratio| Ratios {
            of: "floor".to_owned(),
            per_s: Some(ratio),
            p50: None,
            p99: None,
        });
        let parameters = [("contenders", crowd.contenders), ("processes", crowd.processes)];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value));
        let (parameters, histogram) = (BTreeMap::from(parameters), vec![(1_000.0, crowd.grants)]);
        self.row("one-name", Row { parameters, ratios, extra, histogram, ..row() })
    }

    /// Adds the longest recovery after a kill, less the ttl.
    pub(super) fn recovers(self, over_ttl_ms: f64) -> Data {
        let extra = BTreeMap::from([("recovery_over_ttl_ms".to_owned(), over_ttl_ms)]);
        self.row("recovery", Row { extra, ..row() })
    }

    fn row(mut self, workload: &str, row: Row) -> Data {
        let server = self.0.servers[0].name.clone();
        self.0.rows.push(Row { server, workload: workload.to_owned(), ..row });
        self
    }

    pub(super) fn report(self) -> Report {
        self.0
    }

    /// Returns a bar on the server, if it is about the server.
    pub(super) fn bar(self, id: &str) -> Option<BarReport> {
        judge(&self.0).into_iter().find(|bar| bar.id == id)
    }

    pub(super) fn verdict(self, id: &str) -> String {
        self.bar(id).expect("the bar is about the server").verdict
    }
}

fn row() -> Row {
    Row::of("ours", &Tally::default(), None)
}
